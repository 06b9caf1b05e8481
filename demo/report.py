# SPDX-License-Identifier: Apache-2.0
"""What came of it: the table of the batches that state moved in, the verdict, and the picture."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pandas as pd
import pyarrow as pa

from demo.watch import Act, Batch
from spark_megaphone import PlanStep


class Shares:
    """How many bins each worker had, over the batches; made from what plans did."""

    def __init__(self, bins: pa.Table) -> None:
        self._owner = {row["bin"]: row["worker"] for row in bins.to_pylist()}
        self._at: dict[int, Counter[int]] = {0: Counter(self._owner.values())}

    def follow(self, steps: Iterable[PlanStep]) -> None:
        """Adds a plan that is done."""
        for step in steps:
            assert step.batch is not None, "the plan is done"
            self._owner.update(step.moves)
            self._at[step.batch] = Counter(self._owner.values())

    def at(self, batch: int) -> Counter[int]:
        """Bins by worker while a batch ran."""
        return self._at[max(number for number in self._at if number <= batch)]


@dataclass(frozen=True)
class Outcome:
    """All that is shown at the end."""

    title: str
    batches: list[Batch]
    acts: list[Act]
    migrations: pd.DataFrame
    shares: Shares
    keys: int
    wrong_keys: list[object]
    firsts: int
    wrong_firsts: list[object]

    @property
    def is_right(self) -> bool:
        """Whether both queries gave the batch queries' answers."""
        return not self.wrong_keys and not self.wrong_firsts


_HEADINGS = ("batch", "seconds", "bins in", "bytes in", "from peer", "from checkpoint", "what")


def table(outcome: Outcome) -> str:
    """A line for each batch that bins came into or in which something was done, and one for all others."""
    rows = [_HEADINGS]
    calm_s = []
    for batch in outcome.batches:
        moved = outcome.migrations[outcome.migrations["batch"] == batch.number]
        names = [act.name for act in outcome.acts if act.first_batch == batch.number]
        if moved.empty and not names:
            calm_s.append(batch.duration_s)
            continue
        from_peer, from_checkpoint = moved["bins_from_peer"].sum(), moved["bins_from_checkpoint"].sum()
        bytes_in = moved["bytes_from_peer"].sum() + moved["bytes_from_checkpoint"].sum()
        rows.append(
            (
                str(batch.number),
                f"{batch.duration_s:.2f}",
                f"{moved['bins_in'].sum():,}",
                f"{bytes_in:,}",
                f"{from_peer:,}",
                f"{from_checkpoint:,}",
                ", ".join(names),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths[:-1], strict=False)), row[-1]])
        for row in rows
    ]
    rule = "─" * max(map(len, lines))
    calm = (
        f"{len(calm_s)} other batches: median {median(calm_s):.2f} s, longest {max(calm_s):.2f} s"
        if calm_s
        else ""
    )
    return "\n".join(["", lines[0], rule, *lines[1:], rule, calm, ""])


def verdict(outcome: Outcome) -> str:
    """Whether the answers are right."""
    return "\n".join(
        [
            f"totals: {len(outcome.wrong_keys):,} wrong of {outcome.keys:,} keys{_some(outcome.wrong_keys)}",
            f"firsts: {len(outcome.wrong_firsts):,} wrong of {outcome.firsts:,} keys{_some(outcome.wrong_firsts)}",
        ]
    )


def _some(wrong: list[object]) -> str:
    return f": {', '.join(map(str, wrong[:5]))} …" if wrong else ""


def draw(outcome: Outcome, file: Path) -> None:
    """Draws the batches' durations, with what was done, over the workers' shares of the bins."""
