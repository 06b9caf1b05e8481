# SPDX-License-Identifier: Apache-2.0
"""The picture of a query: how long its batches took, and how many bins each worker had.

The only module that imports matplotlib, so it is imported when a picture is wanted. It keeps away
from pyplot: a picture is nobody's current figure, needs no closing, and any thread may draw one.
"""

from collections.abc import Sequence
from io import BytesIO
from statistics import median

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.ticker import MaxNLocator

from spark_megaphone._history import History, Shares

# Two hues that everybody tells apart: blue for state, orange for what moves it.
BLUES = ("#c6dbef", "#6baed6", "#08519c")
ORANGE = "#d95f02"
INK = "#333333"
CALM = "#9ecae1"
_UNKNOWN = "#e8e8e8"

_WIDTH = 10.0
_DURATIONS_HEIGHT, _SHARES_HEIGHT, _MARGIN_HEIGHT = 3.0, 2.2, 0.7
_LEGEND_ENTRIES_MAX = 9
_GAPS_MAX = 200  # more gaps between bars would be thinner than a dot


class Picture(Figure):
    """A figure that a notebook shows, without `%matplotlib`."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def draw(title: str, history: History, figsize: tuple[float, float] | None = None) -> Picture:
    """Draws the picture.

    Args:
        title: The line above it.
        history: What is drawn.
        figsize: Width and height in inches; None for what suits the number of panels.

    Returns:
        The picture. Its first axes have the durations, if any is known; the others have the bins of
        one group of operators each.
    """
    heights = [_DURATIONS_HEIGHT] * bool(history.durations_s)
    heights += [_SHARES_HEIGHT] * len(history.shares)
    picture = Picture(
        figsize=figsize or (_WIDTH, sum(heights) + _MARGIN_HEIGHT), layout="constrained"
    )
    panels = picture.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    axes: list[Axes] = list(panels[:, 0])
    plain = title.replace("$", r"\$")  # or it would begin a formula
    picture.suptitle(plain, x=0.01, ha="left", fontsize=12, color=INK, wrap=True)
    lower = axes[1:] if history.durations_s else axes
    if history.durations_s:
        _draw_durations(axes[0], history, history.durations_s)
    elif history.durations_s is None:
        note = "How long the batches took is known to the session that started the query."
        axes[0].set_title(note, loc="left", fontsize=9, color=INK)
    for panel, (group, shares) in zip(lower, history.shares.items(), strict=True):
        _draw_shares(panel, history.batches, shares)
        of = f",\noperator {group}" if len(history.shares) > 1 else ""
        panel.set_ylabel(f"bins by worker{of}", color=INK)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(colors=INK)
    axes[-1].set_xlabel("batch", color=INK)
    axes[-1].set_xlim(history.batches[0] - 0.6, history.batches[-1] + 0.6)
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes[-1].ticklabel_format(axis="x", style="plain", useOffset=False)
    return picture


def worker_colours(count: int) -> list[str]:
    """A blue for each worker: the lightest for the first, the darkest for the last."""
    blues = LinearSegmentedColormap.from_list("workers", BLUES)
    return [to_hex(blues(worker / max(1, count - 1))) for worker in range(count)]


def durations_top(durations_s: Sequence[float]) -> float:
    """How high the axis of durations goes.

    A run's first batch compiles, and at its full height it would flatten all others: it is cut off.
    """
    return 1.15 * max(durations_s[1:] or durations_s)


def _draw_durations(axes: Axes, history: History, durations_s: dict[int, float]) -> None:
    at_steps = {step.batch for step in history.steps}
    moved = sum(len(step.moves) for step in history.steps)
    calm = [batch for batch in durations_s if batch not in at_steps]
    stepped = [batch for batch in durations_s if batch in at_steps]
    steps = f"{len(history.steps):,} {'step' if len(history.steps) == 1 else 'steps'}"
    for batches, colour, label in (
        (calm, CALM, "batch without a step"),
        (stepped, ORANGE, f"batch with a step:\n{moved:,} bins moved in {steps}"),
    ):
        if batches:
            heights = [durations_s[batch] for batch in batches]
            width = 0.8 if len(durations_s) <= _GAPS_MAX else 1.0
            axes.bar(batches, heights, width, color=colour, label=label, antialiased=width < 1)
    if calm:
        calm_s = median(durations_s[batch] for batch in calm)
        label = f"median without a step: {calm_s:.2f} s"
        axes.axhline(calm_s, color=INK, linewidth=0.8, linestyle=":", label=label)
    top = durations_top(list(durations_s.values()))
    first, first_s = next(iter(durations_s.items()))
    if first_s > top:
        told = f" {first_s:.1f} s ↑"
        axes.text(first + 0.4, top, told, fontsize=8, va="top", color=INK)
    axes.set_ylim(0, top)
    axes.set_ylabel("batch duration, s", color=INK)
    _add_legend(axes)


def _draw_shares(axes: Axes, batches: range, shares: Sequence[Shares]) -> None:
    workers = sorted({worker for share in shares for worker in share if worker is not None})
    colours = worker_colours(max(workers, default=0) + 1)
    edges = [batch - 0.5 for batch in (*batches, batches[-1] + 1)]
    base = [0] * len(batches)
    is_unknown = any(None in share for share in shares)
    told = _some(workers)
    for worker in [*workers, *([None] if is_unknown else [])]:
        top = [below + share[worker] for below, share in zip(base, shares, strict=True)]
        label = "not known" if worker is None else f"worker {worker}" if worker in told else None
        colour = _UNKNOWN if worker is None else colours[worker]
        # What stairs() does, which measures each edge, too: a minute for hundreds of workers. Bands
        # that are thinner than a dot keep their colours only without smoothing.
        band = StepPatch(
            top,
            edges,
            baseline=base,  # type: ignore[arg-type] # it may be a list, as in stairs()
            facecolor=colour,
            linewidth=0,
            antialiased=False,
            label=label,
        )
        axes.add_artist(band)
        base = top
    total = max(base)
    axes.set_ylim(0, total)
    axes.set_yticks(sorted({0, total // 2, total}))
    _add_legend(axes, reverse=True)  # in the order of the picture


def _some(workers: Sequence[int]) -> Sequence[int]:
    """All workers, or so many of them, evenly chosen, as a legend can name."""
    count = len(workers)
    if count <= _LEGEND_ENTRIES_MAX:
        return workers
    entries = _LEGEND_ENTRIES_MAX // 2
    return [workers[i * (count - 1) // (entries - 1)] for i in range(entries)]


def _add_legend(axes: Axes, reverse: bool = False) -> None:
    axes.legend(
        frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=reverse
    )
