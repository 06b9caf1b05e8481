# SPDX-License-Identifier: Apache-2.0
"""What a replica costs: the steady batch with one standby of each worker, and without.

`python benchmarks/standbys.py [--works wide join] [--rows 50000] [--rounds 5] [--format 2]`

  1. A query on two executors of one core each loads every key, and runs until it is warm. With a
     replica it then waits until each worker has a standby.
  2. Batches follow each other: all cores are busy. Or each begins some time after the one before,
     so that a quarter of the time is free: an executor with four cores and three tasks has as much.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

import harness
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from steady import WORKS, Work
from step import BELOW_TASKS

from spark_megaphone import Megaphone
from testkit import batch_files
from testkit.waiting import until

REPLICAS = "spark.megaphone.replicas"
WITHOUT, WITH = "megaphone", "megaphone, a replica"
BUSY, FREE = "all cores busy", "a quarter of the time free"
WARM_UP_BATCHES, MEASURED_BATCHES = 12, 24
KEYS = {"wide": 1_000_000, "join": 400_000}
BUSY_SHARE = 0.75
PATIENCE_S = 300


def started(
    spark: SparkSession, work: Work, source: Path, checkpoint: Path, interval_ms: int
) -> StreamingQuery:
    """Starts the query; 0 ms between two batches: one follows the other."""
    stream = batch_files.stream(spark, source, "k long, v long")
    writer = work.query(stream).writeStream.format("noop").outputMode(work.mode)
    return (
        writer.option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{interval_ms} milliseconds")
        .start()
    )


def is_stood_by(query: StreamingQuery) -> bool:
    """Whether each worker has a standby with all of its state."""
    rows = Megaphone(query).workers().to_pylist()
    return all(row["standbys"] > 0 for row in rows)


def median_ms(
    spark: SparkSession, work: Work, files: list[Path], has_replica: bool, interval_ms: int
) -> float:
    """The median of the batches that are measured."""
    spark.conf.set(REPLICAS, str(int(has_replica)))
    with harness.folder() as source, harness.folder() as checkpoint:
        for file in files[: 1 + WARM_UP_BATCHES]:
            os.link(file, source / file.name)
        query = started(spark, work, source, checkpoint, interval_ms)
        try:
            query.processAllAvailable()
            if has_replica:
                until(lambda: is_stood_by(query), "each worker has a standby", PATIENCE_S)
            for file in files[1 + WARM_UP_BATCHES :]:
                os.link(file, source / file.name)
            query.processAllAvailable()
            return statistics.median(harness.durations_ms(query)[-MEASURED_BATCHES:])
        finally:
            query.stop()


def measure(spark: SparkSession, name: str, rows: int, rounds: int, format: int) -> None:
    """One work: all its rounds, and its result."""
    work = WORKS[name]
    subjects = [f"{who}: {load}" for load in (BUSY, FREE) for who in (WITHOUT, WITH)]
    with harness.folder() as prepared:
        count = 1 + WARM_UP_BATCHES + MEASURED_BATCHES
        harness.write_batches(spark, prepared, KEYS[name], rows, count)
        files = sorted(prepared.iterdir())
        assert len(files) == count
        busy_ms = median_ms(spark, work, files, has_replica=False, interval_ms=0)

        def of(subject: str) -> float:
            who, load = subject.split(": ")
            interval_ms = round(busy_ms / BUSY_SHARE) if load == FREE else 0
            return median_ms(spark, work, files, who == WITH, interval_ms)

        found = harness.rounds(name, rounds, subjects, of)
    lines = ["| cores | without, ms | with a replica, ms | with ÷ without |", "|---|---|---|---|"]
    for load in (BUSY, FREE):
        without, replica = (f"{who}: {load}" for who in (WITHOUT, WITH))
        ratio = harness.median_and_spread(harness.ratios(found, replica, [without]))
        middle = [statistics.median([r[s] for r in found]) for s in (without, replica)]
        lines.append(f"| {load} | {middle[0]:.0f} | {middle[1]:.0f} | {ratio} |")
    panels = {"Median batch": {s: [r[s] for r in found] for s in subjects}}
    result = {"rows": rows, "keys": KEYS[name], "rounds": found}
    saved = harness.with_format(f"standbys-{name}", format)
    harness.save(saved, result, "\n".join(lines) + "\n", harness.dots(panels, "ms"))


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", nargs="+", choices=KEYS, default=list(KEYS))
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    harness.add_format(parser)
    arguments = parser.parse_args()
    spark = harness.session(
        "local-cluster[2,1,3072]",
        2,
        spark__executor__memory="3g",
        spark__executor__extraJavaOptions=BELOW_TASKS,
    )
    harness.use(spark, "megaphone")
    harness.use_format(spark, "megaphone", arguments.format)
    for name in arguments.works:
        measure(spark, name, arguments.rows, arguments.rounds, arguments.format)
    spark.stop()


if __name__ == "__main__":
    main()
