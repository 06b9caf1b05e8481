# SPDX-License-Identifier: Apache-2.0
"""A burst on one key, and the same step taken on demand and in mode direct.

1. A query has seen many keys, and answers each new one once. Then eight times as many rows come,
   half of them of one key.
2. All other bins of that key's worker go to the other executor on demand: the step's batch brings
   the keys that it has, the rest comes after it.
3. They go back in mode direct: the step's batch waits for all that they have.

Both steps are taken twice. The second time counts, for the executors are warm then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from demo.sink import Answers, wrong_firsts
from spark_megaphone import Megaphone
from testkit import batch_files

KEYS = 3_000_000
_SCHEMA = "key long"
_HOT_KEY = 7
_NEW_KEYS = 0.05  # of all
_CALM_ROWS, _BURST_ROWS = 2_500, 20_000
_CALM_BATCHES, _BURST_BATCHES = 12, 6


@dataclass(frozen=True)
class Step:
    """What a step did to the batch in which it took effect.

    Attributes:
        mode: Of the plan.
        bins: That moved.
        before_s: The median of the batches of the burst before it.
        batch_s: What its batch took.
        wait_s: How long the batch waited for state, at most of its tasks.
        batch_bytes: That the batch brought.
        bins_left: Of which something was elsewhere after the batch.
        bytes: That came in all.
        whole_s: From the submission until all was there.
    """

    mode: str
    bins: int
    before_s: float
    batch_s: float
    wait_s: float
    batch_bytes: int
    bins_left: int
    bytes: int
    whole_s: float


@dataclass(frozen=True)
class Burst:
    """What came of it."""

    keys: int
    steps: list[Step]
    wrong: list[object]


def run(spark: SparkSession, folder: Path, keys: int, deadline: float) -> Burst:
    """Runs the query, takes both steps, compares the answer with a batch query's.

    Raises:
        RuntimeError: A plan failed.
        TimeoutError: The demo's time is up.
    """
    answers = Answers()
    feed = _Feed(folder / "input", keys, deadline)
    spark.conf.set("spark.megaphone.placement.auto", "true")
    query = (
        _firsts(batch_files.stream(spark, feed.folder, _SCHEMA))
        .writeStream.queryName("burst")
        .outputMode("append")
        .foreachBatch(answers.take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        handle = Megaphone(query)
        feed.until(query, lambda: len(_places(handle)) > 1, "both executors have workers")
        for _ in range(_CALM_BATCHES):
            feed.next(query, _CALM_ROWS)
        for _ in range(_BURST_BATCHES):
            feed.next(query, _BURST_ROWS)
        there, back = _moves(handle)
        ways = [(there, "on-demand"), (back, "direct")]
        steps = [_step(feed, query, moves, mode) for moves, mode in 2 * ways][len(ways) :]
    finally:
        query.stop()
    batch = batch_files.rows(spark, batch_files.in_order(feed.folder), _SCHEMA)
    expected = _firsts(batch).toPandas()
    return Burst(len(expected), steps, wrong_firsts(answers.all(), expected))


def _firsts(rows: DataFrame) -> DataFrame:
    """Each key once. The state has a hash of it, as a customer's id might be."""
    customers = rows.withColumn("customer", F.md5(F.col("key").cast("string")))
    return customers.dropDuplicates(["customer"]).select("key")


class _Feed:
    """Gives the query one batch after the other, and notes what each took."""

    def __init__(self, folder: Path, keys: int, deadline: float) -> None:
        self.folder, self.keys = folder, keys
        self.durations_s: dict[int, float] = {}  # by batch
        self._deadline = deadline
        self._dice = np.random.default_rng(seed=1)
        self._batch = 0
        folder.mkdir(parents=True)
        self._write(np.arange(keys))

    def next(self, query: StreamingQuery, rows: int) -> float:
        """Runs one more batch; its duration in seconds. In a burst every second row is of the hot
        key.
        """
        keys = self._dice.integers(0, int(self.keys * (1 + _NEW_KEYS)), rows)
        if rows == _BURST_ROWS:
            keys[::2] = _HOT_KEY
        self._write(keys)
        query.processAllAvailable()
        progress: Any = query.lastProgress
        duration_s: float = progress["durationMs"]["triggerExecution"] / 1000
        self.durations_s[progress["batchId"]] = duration_s
        return duration_s

    def until(self, query: StreamingQuery, is_so: Callable[[], bool], what: str) -> None:
        """Runs batches of the burst until it is so."""
        while not is_so():
            if monotonic() > self._deadline:
                raise TimeoutError(f"Not in time: {what}.")
            self.next(query, _BURST_ROWS)

    def _write(self, keys: np.ndarray) -> None:
        batch_files.write(pa.table({"key": keys}), self.folder, self._batch)
        self._batch += 1


def _places(handle: Megaphone) -> set[str]:
    return {row["executor"] for row in handle.workers().to_pylist()}


def _moves(handle: Megaphone) -> tuple[dict[int, int], dict[int, int]]:
    """All other bins of the hot key's worker, with one of the other executor; and back again."""
    bins = handle.bins().to_pylist()
    hottest = max(bins, key=lambda row: row["accesses"] or 0)
    other = next(row["worker"] for row in bins if row["executor"] != hottest["executor"])
    leaving = [row["bin"] for row in bins if row["worker"] == hottest["worker"] and row != hottest]
    return dict.fromkeys(leaving, other), dict.fromkeys(leaving, hottest["worker"])


def _step(feed: _Feed, query: StreamingQuery, moves: dict[int, int], mode: str) -> Step:
    """Runs batches of the burst until the moves are made, and nothing of them is elsewhere."""
    handle = Megaphone(query)
    before_s = [feed.next(query, _BURST_ROWS) for _ in range(_BURST_BATCHES)]
    begin = monotonic()
    plan = handle.move(moves, mode=mode, strategy="all-at-once")
    feed.until(query, lambda: plan.status in ("done", "failed"), f"plan {plan.id} has ended")
    whole_s = monotonic() - begin
    feed.next(query, _BURST_ROWS)  # which tells what came since the batch before
    batch = plan.steps[0].batch
    if batch is None:
        raise RuntimeError(f"Plan {plan.id} made no step: {plan.status}.")
    came = [row for row in handle.migrations().to_pylist() if row["batch"] >= batch]
    of_step = [row for row in came if row["batch"] == batch]
    return Step(
        mode,
        len(moves),
        median(before_s),
        feed.durations_s[batch],
        max(row["wait_ms"] for row in of_step) / 1000,
        _bytes(of_step),
        sum(row["bins_incomplete"] for row in of_step),
        _bytes(came),
        whole_s,
    )


def _bytes(rows: list[dict[str, int]]) -> int:
    return sum(row["bytes_from_peer"] + row["bytes_from_checkpoint"] for row in rows)
