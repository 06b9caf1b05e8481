# SPDX-License-Identifier: Apache-2.0
"""What a replica costs: the steady batch with one standby of each worker, and without.

`python benchmarks/standbys.py [--works wide join] [--rows 50000] [--rounds 5] [--format 2]`

  1. A query on two executors of one core each loads every key, and runs until it is warm. With a
     replica it then waits until each worker has a standby.
  2. Batches follow each other: all cores are busy. Or each begins some time after the one before,
     so that a quarter of the time is free: an executor with four cores and three tasks has as much.
  3. Meanwhile the processor time of both executors is taken by kind of thread: those that run
     tasks, those of the plugin, which copy and bring standbys forward, and all others.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import Counter
from pathlib import Path

import harness
from losses import executors
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
THREADS = {"tasks": "Executor task", "plugin": "megaphone-"}  # how their names begin
OTHERS = "others"
KINDS = (*THREADS, OTHERS)
Round = dict[str, float]


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


def processor_ms(spark: SparkSession) -> Counter[str]:
    """The processor time of the executors so far, by kind of thread."""
    tick_ms = 1000 / os.sysconf("SC_CLK_TCK")
    found: Counter[str] = Counter()
    for process in executors(spark).values():
        for stat in Path(f"/proc/{process}/task").glob("*/stat"):
            try:
                name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue  # the thread has ended
            user, system = rest.split()[11:13]
            kind = next((k for k, begin in THREADS.items() if name.startswith(begin)), OTHERS)
            found[kind] += round((int(user) + int(system)) * tick_ms)
    return found


def measured(
    spark: SparkSession, work: Work, files: list[Path], has_replica: bool, interval_ms: int
) -> Round:
    """The median of the batches that are measured, and the processor time of each."""
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
            before = processor_ms(spark)
            query.processAllAvailable()
            taken = processor_ms(spark)
            taken.subtract(before)
            median = statistics.median(harness.durations_ms(query)[-MEASURED_BATCHES:])
            return {"median": median} | {kind: taken[kind] / MEASURED_BATCHES for kind in KINDS}
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
        busy_ms = measured(spark, work, files, has_replica=False, interval_ms=0)["median"]

        def of(subject: str) -> Round:
            who, load = subject.split(": ")
            interval_ms = round(busy_ms / BUSY_SHARE) if load == FREE else 0
            return measured(spark, work, files, who == WITH, interval_ms)

        found = harness.rounds(name, rounds, subjects, of)
    medians = [{subject: each["median"] for subject, each in r.items()} for r in found]
    lines = [
        "| cores | without, ms | with a replica, ms | with ÷ without | "
        "processor time of a batch: tasks, plugin, others, ms |",
        "|---|---|---|---|---|",
    ]
    for load in (BUSY, FREE):
        without, replica = (f"{who}: {load}" for who in (WITHOUT, WITH))
        ratio = harness.median_and_spread(harness.ratios(medians, replica, [without]))
        middle = [statistics.median([r[s] for r in medians]) for s in (without, replica)]
        lines.append(
            f"| {load} | {middle[0]:.0f} | {middle[1]:.0f} | {ratio} | "
            f"{_processor(found, without)}; {_processor(found, replica)} |"
        )
    panels = {"Median batch": {s: [r[s] for r in medians] for s in subjects}}
    result = {"rows": rows, "keys": KEYS[name], "rounds": found}
    saved = harness.with_format(f"standbys-{name}", format)
    harness.save(saved, result, "\n".join(lines) + "\n", harness.dots(panels, "ms"))


def _processor(found: list[dict[str, Round]], subject: str) -> str:
    return ", ".join(f"{statistics.median(r[subject][k] for r in found):.0f}" for k in KINDS)


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
