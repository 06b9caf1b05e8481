# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: what `Megaphone.plot` draws, with what was done."""

from pathlib import Path

from demo.report import Outcome

_KILL = "#000000"
_INK = "#333333"


def draw(outcome: Outcome, file: Path) -> None:
    """Writes the picture as a PNG file."""
    figure = outcome.figure
    figure.suptitle(outcome.title, x=0.01, ha="left", fontsize=12, color=_INK)
    upper, lower = figure.axes
    for act in outcome.acts:
        is_kill = act.name.startswith("kill")
        if is_kill:
            for axes in (upper, lower):
                axes.axvline(act.first_batch, color=_KILL, linewidth=1.4)
        else:
            upper.axvspan(
                act.first_batch - 0.5, act.last_batch + 0.5, color="#f0f0f0", linewidth=0, zorder=0
            )
        upper.annotate(
            act.name,
            (act.first_batch if is_kill else (act.first_batch + act.last_batch) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 16 if is_kill else 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=_KILL if is_kill else _INK,
        )
    figure.savefig(file, dpi=150)
