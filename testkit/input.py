# SPDX-License-Identifier: Apache-2.0
"""The input of the tests' queries: generated rows of a key, a value and a time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from testkit import batch_files

SCHEMA = "k long, v long, t timestamp"
FLUSH = -1  # the key of rows that are there for their time alone
_START = datetime(2024, 1, 1, tzinfo=UTC)
_BATCH_STEP = timedelta(seconds=10)


@dataclass(frozen=True)
class Pattern:
    """Which rows a batch has. Row `r` of batch `b` has the number `b * step + r`.

    Attributes:
        keys: How many keys there are; a row's key follows from its number.
        rows: Of a batch.
        step: How far the numbers go on from batch to batch; below `rows`, they come again.
        values: A row's value is its place in the batch, modulo this; its number if this is None.
    """

    keys: int
    rows: int
    step: int
    values: int | None = None

    def of(self, batch: int) -> list[tuple[int, int]]:
        """Key and value of each row of a batch."""
        return [
            (self.key_of(number), number if self.values is None else row % self.values)
            for row, number in enumerate(range(batch * self.step, batch * self.step + self.rows))
        ]

    def key_of(self, number: int) -> int:
        """Neighbours are far from each other, and each key comes equally often."""
        return number * 7919 % self.keys


FEW_ROWS = Pattern(keys=200, rows=120, step=50, values=3)  # other keys than in the batch before
MANY_ROWS = Pattern(keys=5000, rows=2000, step=2000)


class Input:
    """Files in a folder of their own, one a batch. Event time goes on by ten seconds a batch."""

    def __init__(self, folder: Path, pattern: Pattern) -> None:
        folder.mkdir(parents=True)
        self.folder, self.pattern = folder, pattern
        self.batches = 0
        self._time = _START

    def write(self, batches: int = 1) -> None:
        """Writes the rows of the next batches."""
        for _ in range(batches):
            self._write(_BATCH_STEP, self.pattern.of(self.batches))

    def write_late(self) -> None:
        """Writes a row whose time is three hours on, past which there is nothing open."""
        self._write(timedelta(hours=3), [(FLUSH, 1)])  # both sides of a join take ones

    def files(self) -> list[Path]:
        """What is written, in the order of the batches."""
        return batch_files.in_order(self.folder)

    def _write(self, step: timedelta, rows: list[tuple[int, int]]) -> None:
        self._time += step
        table = pa.table(
            {
                "k": pa.array([k for k, _ in rows], pa.int64()),
                "v": pa.array([v for _, v in rows], pa.int64()),
                "t": pa.array([self._time] * len(rows), pa.timestamp("us", tz="UTC")),
            }
        )
        batch_files.write(table, self.folder, self.batches)
        self.batches += 1
