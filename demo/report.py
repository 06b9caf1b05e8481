# SPDX-License-Identifier: Apache-2.0
"""What came of it: the table of the batches that state moved in, and the verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Self

import pandas as pd
from matplotlib.figure import Figure

from demo.burst import Burst
from demo.watch import Act, Batch


@dataclass(frozen=True)
class Reads:
    """What was read from the checkpoint: all of it, to the last byte."""

    workers: int
    """Workers of which all bins were read."""
    bins: int
    """Bins of others, as of one whose standby was half made."""
    bytes: int
    """Of both, and what was newer than the state that an executor had."""

    @classmethod
    def of(cls, migrations: Iterable[Mapping[str, Any]]) -> Self:
        """Counts some rows of the table `migrations`."""
        rows = list(migrations)
        return cls(
            workers=len({(r["operator"], r["worker"]) for r in rows if r["is_recovery"]}),
            bins=sum(r["bins_from_checkpoint"] for r in rows),
            bytes=sum(r["bytes_from_checkpoint"] for r in rows),
        )

    def __str__(self) -> str:
        return f"{self.workers} whole workers, {self.bins:,} other bins, {self.bytes:,} bytes"


@dataclass(frozen=True)
class Loss:
    """What the end of an executor cost a query."""

    reads: Reads
    """What it read again."""
    batch_s: float
    """Its longest batch since."""
    before_s: float
    """The median of its last batches before."""


@dataclass(frozen=True)
class Outcome:
    """All that is shown at the end."""

    title: str
    batches: list[Batch]
    acts: list[Act]
    migrations: pd.DataFrame
    figure: Figure
    keys: int
    wrong_keys: list[object]
    firsts: int
    wrong_firsts: list[object]
    losses: dict[str, Loss]
    """By query: what the second kill cost it."""

    def names_at(self, batch: int) -> list[str]:
        """What was done, or happened, at a batch."""
        names = [act.name for act in self.acts if act.first_batch == batch]
        if self._at(batch)["is_recovery"].any():
            names.append("recovery from files")
        return names

    def moved_at(self, batch: int) -> pd.Series:
        """The sums of the migrations of a batch."""
        return self._at(batch).sum(numeric_only=True)

    @property
    def calm(self) -> list[Batch]:
        """The batches to which no state came, and at which nothing was done or happened."""
        return [
            batch
            for batch in self.batches
            if self._at(batch.number).empty and not self.names_at(batch.number)
        ]

    def _at(self, batch: int) -> pd.DataFrame:
        return self.migrations[self.migrations["batch"] == batch]

    @property
    def is_right(self) -> bool:
        """Whether both queries gave the batch queries' answers."""
        return not self.wrong_keys and not self.wrong_firsts


_HEADINGS = (
    "batch",
    "seconds",
    "bins in",
    "same executor",
    "from peer",
    "from checkpoint",
    "bytes in",
    "",
)


def table(outcome: Outcome) -> str:
    """A line for each batch to which state came or in which something was done, and one for all
    others.
    """
    rows: list[tuple[str, ...]] = [_HEADINGS]
    calm_batches = outcome.calm
    calm_s = [batch.duration_s for batch in calm_batches]
    for batch in outcome.batches:
        if batch in calm_batches:
            continue
        sums = outcome.moved_at(batch.number)
        counts = ("bins_in", "bins_relabelled", "bins_from_peer", "bins_from_checkpoint")
        bytes_in = sums["bytes_from_peer"] + sums["bytes_from_checkpoint"]
        numbers = [*(sums[name] for name in counts), bytes_in]
        rows.append(
            (
                str(batch.number),
                f"{batch.duration_s:.2f}",
                *(f"{number:,.0f}" if number else "·" for number in numbers),
                ", ".join(outcome.names_at(batch.number)),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            [*(cell.rjust(width) for cell, width in zip(row, widths[:-1], strict=False)), row[-1]]
        )
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
    """What an executor's end cost with standbys and without, and whether the answers are right."""
    lines = [
        "The second kill -9, of which detection is a part:",
        _lost("totals, with a standby for each worker", outcome.losses["totals"]),
        _lost("firsts, without", outcome.losses["firsts"]),
        _wrong("totals", outcome.wrong_keys, outcome.keys),
        _wrong("firsts", outcome.wrong_firsts, outcome.firsts),
    ]
    return "\n".join(lines)


def burst(outcome: Burst) -> str:
    """The same step on demand and in mode direct, beside each other; and whether the answer is
    right.
    """
    lines = ["", f"The same step of {outcome.steps[0].bins} bins in a burst:"]
    lines += [
        f"  {step.mode + ':':<11}its batch took {step.batch_s:.2f} s ({step.before_s:.2f} s before "
        f"it), waited {step.wait_s:.2f} s for {_megabytes(step.batch_bytes)} of "
        f"{_megabytes(step.bytes)}, left {step.bins_left} bins incomplete; all was there after "
        f"{step.whole_s:.1f} s"
        for step in outcome.steps
    ]
    return "\n".join([*lines, _wrong("burst", outcome.wrong, outcome.keys)])


def _lost(name: str, loss: Loss) -> str:
    return (
        f"  {name}: a batch of {loss.batch_s:.2f} s, {loss.before_s:.2f} s before it; "
        f"read again: {loss.reads}"
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _wrong(name: str, wrong: list[object], count: int) -> str:
    return f"{name}: {len(wrong):,} wrong of {count:,} keys{_some(wrong)}"


def _some(wrong: list[object]) -> str:
    return f": {', '.join(map(str, wrong[:5]))} …" if wrong else ""
