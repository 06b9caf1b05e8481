# SPDX-License-Identifier: Apache-2.0
"""The batch of a step that moves half of the state between two executors, against the median batch.

Beside it Spark's own way: stop, repartition offline, start again.

`python benchmarks/step.py [--keys 1000000] [--rows 50000] [--rounds 5]`
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import harness
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tqdm import tqdm

from spark_megaphone import Megaphone

WARM_UP_BATCHES = 25
MEDIAN_OF_BATCHES = 10


class Feed:
    """A stream of generated batches: each `next` writes one file and waits until it is
    processed.
    """

    def __init__(self, spark: SparkSession, folder: Path, keys: int, rows: int) -> None:
        self.spark, self.folder, self.keys, self.rows, self.batch = spark, folder, keys, rows, 0
        harness.write_batches(spark, folder, keys, rows, 1)

    def start(self, checkpoint: Path) -> StreamingQuery:
        """Starts the query and runs the batch that loads every key."""
        query = harness.started(self.spark, self.folder, checkpoint, harness.wide_aggregate)
        query.processAllAvailable()
        return query

    def next(self, query: StreamingQuery) -> int:
        """Runs one more batch; its duration in ms."""
        self.batch += 1
        harness.write_updates(self.spark, self.folder, self.batch, self.keys, self.rows)
        query.processAllAvailable()
        return harness.durations_ms(query)[-1]


def half_moved(feed: Feed, query: StreamingQuery, mode: str) -> tuple[int, int]:
    """Moves half of the state in one step; the duration of the step's batch in ms, and the bins.

    Called again, it moves the same bins back.
    """
    megaphone = Megaphone(query)
    owners = megaphone.bins().to_pydict()
    # Every other bin of each worker changes places: half of the state moves, the load stays even.
    half = {b: 1 - w for b, w in zip(owners["bin"], owners["worker"], strict=True) if b // 2 % 2}
    plan = megaphone.move(half, strategy="all-at-once", mode=mode)
    durations: dict[int, int] = {}
    while plan.steps[0].batch is None:
        duration = feed.next(query)
        durations[int(query.lastProgress["batchId"])] = duration  # type: ignore[index]
    return durations[plan.steps[0].batch], len(half)


def step_ratio(spark: SparkSession, mode: str, keys: int, rows: int) -> dict[str, float]:
    """One round: the step's batch over the median of the batches before it."""
    harness.use(spark, "megaphone")
    with harness.folder() as folder, harness.folder() as checkpoint:
        feed = Feed(spark, folder, keys, rows)
        query = feed.start(checkpoint)
        try:
            for _ in range(WARM_UP_BATCHES):
                feed.next(query)
            before = [feed.next(query) for _ in range(MEDIAN_OF_BATCHES)]
            step, bins = half_moved(feed, query, mode)
            moved = Megaphone(query).migrations().to_pydict()
            return {
                "median_ms": statistics.median(before),
                "step_ms": step,
                "bytes": float(sum(moved["bytes_from_peer"])),
                "bins": float(bins),
            }
        finally:
            query.stop()


def offline(spark: SparkSession, keys: int, rows: int) -> dict[str, float]:
    """Spark's own way, on RocksDB: stop, repartition 2 to 4, start and run a batch; seconds of each
    part.
    """
    harness.use(spark, "rocksdb")
    with harness.folder() as folder, harness.folder() as checkpoint:
        feed = Feed(spark, folder, keys, rows)
        query = feed.start(checkpoint)
        for _ in range(3):
            feed.next(query)
        times = [time.monotonic()]
        query.stop()
        times.append(time.monotonic())
        manager: Any = spark._streamingCheckpointManager
        manager.repartition(str(checkpoint), 4)
        times.append(time.monotonic())
        query = feed.start(checkpoint)
        feed.next(query)
        times.append(time.monotonic())
        query.stop()
        return {
            "stop_s": times[1] - times[0],
            "repartition_s": times[2] - times[1],
            "restart_s": times[3] - times[2],
        }


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    spark = harness.session("local-cluster[2,1,3072]", 2, spark__executor__memory="2g")
    rounds: dict[str, list[dict[str, float]]] = {"prepared": [], "direct": []}
    step_ratio(
        spark, "prepared", arguments.keys, arguments.rows
    )  # not counted: it warms up the executors
    for _, mode in tqdm(
        list(harness.turned(arguments.rounds, list(rounds))), desc="step", unit="run"
    ):
        rounds[mode].append(step_ratio(spark, mode, arguments.keys, arguments.rows))
    spark_way = offline(spark, arguments.keys, arguments.rows)
    lines = [
        "| mode | step batch / median batch (spread) | step ms | median ms | MB pulled |",
        "|---|---|---|---|---|",
    ]
    for mode, measured in rounds.items():
        ratio = harness.median_and_spread([m["step_ms"] / m["median_ms"] for m in measured])
        mean = {k: statistics.median([m[k] for m in measured]) for k in measured[0]}
        times = f"{mean['step_ms']:.0f} | {mean['median_ms']:.0f}"
        lines.append(f"| {mode} | {ratio} | {times} | {mean['bytes'] / 1e6:.1f} |")
    parts = ", ".join(f"{k.removesuffix('_s')} {v:.1f} s" for k, v in spark_way.items())
    lines += ["", f"Spark's own way, once: {parts}."]
    batches = {
        f"megaphone, {mode}: {name}": [m[key] for m in measured]
        for mode, measured in rounds.items()
        for name, key in (("median batch", "median_ms"), ("batch of the step", "step_ms"))
    }
    stopped = {f"Spark: {k.removesuffix('_s')}": [1000 * v] for k, v in spark_way.items()}
    chart = harness.dots({"Half of the state moves between two executors": batches | stopped}, "ms")
    result = {"arguments": vars(arguments), "rounds": rounds, "offline": spark_way}
    harness.save("step", result, "\n".join(lines) + "\n", chart)
    spark.stop()


if __name__ == "__main__":
    main()
