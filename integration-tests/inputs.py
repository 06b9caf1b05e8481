# SPDX-License-Identifier: Apache-2.0
"""Makes a query's input, all of it up front, and knows the answer without Spark."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 5000
Totals = dict[int, tuple[int, int]]
_START = datetime(2024, 1, 1, tzinfo=UTC)
_SECONDS_PER_BATCH = 10


@dataclass
class Input:
    """Files that are written at once and shown to the query one by one: each is one batch.

    Row `i` has the key `i * 7919 % KEYS` and the value `i`; its time goes on by ten seconds a
    batch.
    """

    folder: Path
    batches: int = 80
    rows: int = 2000
    shown: int = 0
    hidden: Path = field(init=False)

    def __post_init__(self) -> None:
        self.hidden = self.folder.with_name(self.folder.name + "-hidden")
        self.folder.mkdir(parents=True)
        self.hidden.mkdir()
        for batch in range(self.batches):
            values = list(range(batch * self.rows, (batch + 1) * self.rows))
            time = _START + timedelta(seconds=batch * _SECONDS_PER_BATCH)
            table = pa.table(
                {
                    "k": pa.array([key_of(v) for v in values], pa.int64()),
                    "v": pa.array(values, pa.int64()),
                    "t": pa.array([time] * self.rows, pa.timestamp("us", tz="UTC")),
                }
            )
            pq.write_table(table, self.hidden / self._name(batch))

    def show(self, batches: int) -> None:
        """Shows the next files; a rename, so the query sees them whole or not at all."""
        for _ in range(batches):
            name = self._name(self.shown)
            (self.hidden / name).rename(self.folder / name)
            self.shown += 1

    def totals(self) -> Totals:
        """Count and sum of each key, over what was shown."""
        counts: Counter[int] = Counter()
        sums: Counter[int] = Counter()
        for v in range(self.shown * self.rows):
            counts[key_of(v)] += 1
            sums[key_of(v)] += v
        return {k: (counts[k], sums[k]) for k in counts}

    def windows(self, seconds: int) -> dict[tuple[int, int], tuple[int, int]]:
        """Count and sum by (start of the window, key), over what was shown."""
        result: dict[tuple[int, int], tuple[int, int]] = {}
        for v in range(self.shown * self.rows):
            time = int(_START.timestamp()) + v // self.rows * _SECONDS_PER_BATCH
            at = (time - time % seconds, key_of(v))
            n, s = result.get(at, (0, 0))
            result[at] = (n + 1, s + v)
        return result

    @staticmethod
    def _name(batch: int) -> str:
        return f"{batch:04}.parquet"


def key_of(value: int) -> int:
    return value * 7919 % KEYS


def wrong(found: dict[int, tuple[int, int]], expected: dict[int, tuple[int, int]]) -> list[str]:
    """What differs, in words; empty for two equal answers."""
    return [
        f"key {k}: found {found.get(k)}, expected {expected.get(k)}"
        for k in sorted(found.keys() | expected.keys())
        if found.get(k) != expected.get(k)
    ]
