# SPDX-License-Identifier: Apache-2.0
"""Rows that come at a fixed rate, whatever the query does, and how late each of them is answered.

  1. A query loads every key on two executors, and gets warm.
  2. From then on each twentieth of a second a file comes with the rows that were due in it. A row's
     latency is from the time at which it was due to the end of the batch that has it, so a stall is
     charged to each row that it holds up (Megaphone, VLDB 19, section 5).

Event time goes on by a second a file. What was loaded lies in the span before, evenly, and the
watermark follows at that distance: in each second as many of the rows in the state are due as come.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

import harness
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from testkit import batch_files
from testkit.waiting import until

SCHEMA = "k long, v long, ago_s long"
TICK_S = 0.05
TEMPLATES = 64  # files with updates; they come again and again
WARM_UP_S = 25.0
LOOK_S = 1.0
PATIENCE_S = 900.0
KEPT = 200  # files that have been read, of which a batch may still ask
ZIPF = 1.1
NEAR = "interval 60 seconds"
BY = ("uniform", "zipf")


def wide_key() -> Column:
    """A hash that does not compress, in place of a number."""
    return sf.md5(sf.col("k").cast("string")).alias("k")


def counted(rows: DataFrame) -> DataFrame:
    """Megaphone's key count: about 16 bytes a key."""
    return rows.groupBy("k").count()


def windows(rows: DataFrame) -> DataFrame:
    """Count and sum of each key in each minute."""
    near = rows.groupBy(sf.window("t", "60 seconds"), wide_key())
    return near.agg(sf.count("*").alias("n"), sf.sum("v").alias("s"))


def unique(rows: DataFrame) -> DataFrame:
    """Each key once, for as long as the watermark is behind."""
    return rows.select(wide_key(), "t").dropDuplicatesWithinWatermark(["k"])


def sessions(rows: DataFrame) -> DataFrame:
    """The count of each key's sessions."""
    return rows.groupBy(sf.session_window("t", "60 seconds"), wide_key()).count()


def join(rows: DataFrame) -> DataFrame:
    """What was loaded, and half of the updates, beside the other half: same key, near in time."""
    is_left = sf.expr("ago_s > 0 or v % 2 = 0")
    left = rows.where(is_left).select(wide_key(), "t", "v")
    right = rows.where(~is_left).select(
        wide_key().alias("k2"), sf.col("t").alias("t2"), sf.col("v").alias("v2")
    )
    return left.join(right, sf.expr(f"k = k2 and t2 between t - {NEAR} and t + {NEAR}"))


@dataclass(frozen=True)
class Shape:
    """A query, its output mode, and whether it forgets what is old."""

    query: Callable[[DataFrame], DataFrame]
    mode: str = "update"
    is_timed: bool = True


SHAPES = {
    "wide": Shape(harness.wide_aggregate, is_timed=False),
    "count": Shape(counted, is_timed=False),
    "windows": Shape(windows),
    "windows-append": Shape(windows, "append"),
    "unique": Shape(unique, "append"),
    "sessions": Shape(sessions, "append"),
    "join": Shape(join, "append"),
}


class Ended(NamedTuple):
    """A batch: when it began and ended, and the files that it read."""

    begun_s: float
    end_s: float
    ticks: int


class OpenLoop:
    """Gives a query a file a tick, and notes when each batch ended and what it read.

    Threads: one of its own feeds, one looks at the query and removes what it has read, the caller's
    asks.
    """

    def __init__(
        self, query: StreamingQuery, templates: list[Path], source: Path, keys: int
    ) -> None:
        self.query, self.templates, self.source = query, templates, source
        # A join reads its input twice, and says so.
        reads = query.recentProgress[0]["numInputRows"] // keys
        self.rows = reads * pa.parquet.ParquetFile(templates[0]).metadata.num_rows
        self.begun_s = 0.0  # when the first tick was due
        self.ended: dict[int, Ended] = {}  # by batch
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=t) for t in (self._feed, self._watch)]

    def __enter__(self) -> Self:
        self.first_batch = self.newest + 1
        self.begun_s = time.time()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    @property
    def newest(self) -> int:
        """The newest batch that has ended."""
        return int(self.query.lastProgress["batchId"])  # type: ignore[index]

    def _feed(self) -> None:
        for tick in itertools.count():
            wait = self.begun_s + tick * TICK_S - time.time()
            if self.is_over.wait(max(0.0, wait)):
                return
            copy = self.source.with_name(f"{self.source.name}.part")
            shutil.copyfile(self.templates[tick % len(self.templates)], copy)
            batch_files.place(copy, self.source, 1 + tick)

    def _watch(self) -> None:
        gone = 1
        while not self.is_over.wait(LOOK_S):
            self._note()
            # A folder with thousands of files would take a batch long to list.
            for tick in range(gone, max(gone, self._ticks_done() - KEPT)):
                (self.source / f"{tick:06}.parquet").unlink()
                gone = tick + 1

    def _note(self) -> None:
        for progress in self.query.recentProgress:
            rows, batch = progress["numInputRows"], int(progress["batchId"])
            if rows > 0 and batch >= self.first_batch:
                begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
                end = begun + progress["durationMs"]["triggerExecution"] / 1000
                self.ended[batch] = Ended(begun, end, rows // self.rows)

    def latencies(self, from_s: float, to_s: float) -> tuple[list[float], list[float]]:
        """When ticks were due in a span of time, and how late each was, in ms."""
        last = int((to_s - self.begun_s) / TICK_S)
        until(lambda: self._ticks_done() > last, "all due rows are there", PATIENCE_S)
        due_s, late_ms, tick = [], [], 0
        for _, end, ticks in (self.ended[batch] for batch in sorted(self.ended)):
            for _ in range(ticks):
                due = self.begun_s + tick * TICK_S
                if from_s <= due < to_s:
                    due_s.append(due)
                    late_ms.append((end - due) * 1000)
                tick += 1
        return due_s, late_ms

    def _ticks_done(self) -> int:
        return sum(ended.ticks for ended in list(self.ended.values()))


def write_templates(to: Path, keys: int, rows: int, by: str) -> list[Path]:
    """Files with the updates of a tick each, of keys that come equally often or by Zipf's law."""
    dice = np.random.default_rng(7)
    to.mkdir()
    for number in range(TEMPLATES):
        ranks = dice.zipf(ZIPF, rows) if by == "zipf" else dice.integers(0, keys, rows)
        k = (ranks.astype(np.uint64) * np.uint64(2_654_435_761) % np.uint64(keys)).astype(np.int64)
        v = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
        none = np.zeros(rows, dtype=np.int64)
        batch_files.write(pa.table({"k": k, "v": v, "ago_s": none}), to, number)
    return batch_files.in_order(to)


def stream(spark: SparkSession, source: Path, shape: Shape, span_s: int) -> DataFrame:
    """The rows of all files; with event time where the shape forgets what is old."""
    rows: DataFrame = spark.readStream.schema(SCHEMA).parquet(str(source))
    if not shape.is_timed:
        return rows
    time_of_file = sf.unix_seconds("_metadata.file_modification_time")
    return rows.select(
        "k", "v", "ago_s", sf.timestamp_seconds(time_of_file - sf.col("ago_s")).alias("t")
    ).withWatermark("t", f"{span_s} seconds")


@contextmanager
def loop(spark: SparkSession, shape: Shape, by: str, keys: int, rate: int) -> Iterator[OpenLoop]:
    """A query that has loaded `keys` keys and is warm; `rate` rows a second come to it."""
    harness.use(spark, "megaphone")
    # Else a join's side would count only some of the rows that it reads.
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    rows = int(rate * TICK_S)
    span_s = max(1, keys // rows)
    with harness.folder() as folder, harness.folder() as source, harness.folder() as checkpoint:
        templates = write_templates(folder / "updates", keys, rows, by)
        ago_s = (sf.col("id") * span_s / keys).cast("long")
        load = spark.range(keys).select(
            sf.col("id").alias("k"), sf.lit(0).cast("long").alias("v"), ago_s.alias("ago_s")
        )
        harness.write_one(load, source, 0)
        shaped = shape.query(stream(spark, source, shape, span_s))
        writer = shaped.writeStream.format("noop").outputMode(shape.mode)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.processAllAvailable()
            with OpenLoop(query, templates, source, keys) as running:
                time.sleep(WARM_UP_S)  # rows come by the clock
                yield running
        finally:
            query.stop()
