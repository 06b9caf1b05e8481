# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: batch durations with what was done, over the workers' shares of the
bins.
"""

from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from demo.report import Outcome

_CALM, _MOVED, _KILL = "#b8c4ce", "#e07b39", "#b3261e"
_WORKERS = ("#1b4965", "#4d8fac", "#9cc5a1", "#e9c46a")
_INK = "#333333"


def draw(outcome: Outcome, file: Path) -> None:
    """Writes the picture as a PNG file."""
    mpl.use("Agg")
    figure = Figure(figsize=(11, 6.4), dpi=150, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    figure.suptitle(outcome.title, x=0.01, ha="left", fontsize=12, color=_INK)
    _durations(upper, outcome)
    _shares(lower, outcome)
    _acts(upper, lower, outcome)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK)
    figure.savefig(file)


def _durations(axes: Axes, outcome: Outcome) -> None:
    counts = outcome.migrations.groupby("batch")["bins_in"].sum()
    moved = {int(batch) for batch, bins in counts.items() if bins > 0}
    # The first batch starts Spark's code generation; at full height it would flatten all others.
    top = 1.15 * max(batch.duration_s for batch in outcome.batches[1:])
    for is_moved, colour, label in (
        (False, _CALM, "no bins move"),
        (True, _MOVED, "bins arrive"),
    ):
        batches = [batch for batch in outcome.batches if (batch.number in moved) is is_moved]
        axes.bar(
            [batch.number for batch in batches],
            [batch.duration_s for batch in batches],
            width=0.8,
            color=colour,
            label=label,
        )
    first = outcome.batches[0]
    if first.duration_s > top:
        axes.text(0.55, top * 0.98, f"{first.duration_s:.0f} s ↑", fontsize=8, va="top", color=_INK)
    calm_s = median(batch.duration_s for batch in outcome.calm)
    axes.axhline(
        calm_s,
        color=_INK,
        linewidth=0.8,
        linestyle=":",
        label=f"median of the batches in which nothing happens: {calm_s:.2f} s",
    )
    axes.set_ylim(0, top)
    axes.set_ylabel("batch duration, s", color=_INK)
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def _shares(axes: Axes, outcome: Outcome) -> None:
    numbers = [batch.number for batch in outcome.batches]
    shares = [outcome.shares.at(number) for number in numbers]
    base = [0] * len(numbers)
    for worker in sorted(set().union(*shares)):
        bins = [share[worker] for share in shares]
        axes.bar(
            numbers,
            bins,
            bottom=base,
            width=1.0,
            color=_WORKERS[worker % len(_WORKERS)],
            label=f"worker {worker}",
        )
        base = [below + count for below, count in zip(base, bins, strict=True)]
    axes.set_xlim(-0.6, len(numbers) - 0.4)
    axes.set_ylim(0, base[0])
    axes.set_yticks([0, base[0] // 2, base[0]])
    axes.set_ylabel("bins by worker", color=_INK)
    axes.set_xlabel("batch", color=_INK)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _acts(upper: Axes, lower: Axes, outcome: Outcome) -> None:
    for act in outcome.acts:
        kill = act.name.startswith("kill")
        if kill:
            for axes in (upper, lower):
                axes.axvline(act.first_batch, color=_KILL, linewidth=1.4)
        else:
            upper.axvspan(
                act.first_batch - 0.5, act.last_batch + 0.5, color="#f0f0f0", linewidth=0, zorder=0
            )
        upper.annotate(
            act.name,
            (act.first_batch if kill else (act.first_batch + act.last_batch) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 16 if kill else 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=_KILL if kill else _INK,
        )
