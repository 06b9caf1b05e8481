# SPDX-License-Identifier: Apache-2.0
"""The steady batch of a query, without any plan, on each provider, and with no state at all.

`python benchmarks/steady.py [--works aggregate sessions join transform wide] [--rounds 5]`

The work `wide` has ten times as many keys, of 96 bytes each, and two executors in place of two
threads.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import harness
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

WARM_UP_BATCHES = 12
MEASURED_BATCHES = 24
ROWS = 100_000
PARTITIONS = 4
EXECUTOR_MEMORY = "5g"


def aggregate(stream: DataFrame) -> DataFrame:
    """Count and sum per key."""
    return stream.groupBy("k").agg(sf.count("*").alias("n"), sf.sum("v").alias("s"))


def timed(stream: DataFrame, delay: str) -> DataFrame:
    """With an event time that goes on by one second every thousand rows."""
    return stream.withColumn("t", sf.timestamp_seconds(sf.col("v") / 1000)).withWatermark(
        "t", delay
    )


def sessions(stream: DataFrame) -> DataFrame:
    """Sessions of a minute's gap: as many open ones as there are keys, a quarter of them ends each
    batch.
    """
    return (
        timed(stream, "300 seconds")
        .groupBy(sf.session_window("t", "60 seconds"), "k")
        .agg(sf.count("*").alias("n"))
    )


def join(stream: DataFrame) -> DataFrame:
    """Rows of one half of the stream beside those of the other of the same key and minute."""
    left = timed(stream.where("v % 2 = 0"), "60 seconds")
    right = timed(stream.where("v % 2 = 1"), "60 seconds").select(
        sf.col("k").alias("k2"), sf.col("v").alias("v2"), sf.col("t").alias("t2")
    )
    near = sf.expr("k = k2 and t2 between t - interval 60 seconds and t + interval 60 seconds")
    return left.join(right, near)


def transform(stream: DataFrame) -> DataFrame:
    """Count and sum per key by `transformWithState`, compiled: Python's own cost would hide the
    store's.
    """
    spark = stream.sparkSession
    assert isinstance(spark, SparkSession)
    sums = spark._jvm.org.apache.spark.sql.megaphone.TransformWork.sums(stream._jdf)  # type: ignore[union-attr]
    return DataFrame(sums, spark)


@dataclass(frozen=True)
class Work:
    """A query, its output mode, the providers of Spark's that run it, its keys, and where it
    runs.
    """

    query: Callable[[DataFrame], DataFrame]
    mode: str = "update"
    peers: list[str] = field(default_factory=lambda: harness.PEERS)
    keys: int = 400_000
    master: str = "local[2]"


WORKS = {
    "aggregate": Work(aggregate),
    "sessions": Work(sessions, "append"),
    "join": Work(join, "append"),
    "transform": Work(transform, peers=["rocksdb"]),
    "wide": Work(harness.wide_aggregate, keys=4_000_000, master="local-cluster[2,1,6144]"),
}


def settings(names: list[str]) -> dict[str, str]:
    """What every session of a process needs that runs these works: its JVM takes jars only as it
    starts.
    """
    return {"spark__jars": harness.benchmarks_jar()} if "transform" in names else {}


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--keys", type=int, help="other than the work's own number")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    arguments = parser.parse_args()
    conf = {"spark__executor__memory": EXECUTOR_MEMORY, **settings(arguments.works)}
    for name in arguments.works:
        work = WORKS[name]
        spark = harness.session(work.master, arguments.partitions, **conf)
        measure(spark, name, work, arguments)
        spark.stop()


def measure(spark: SparkSession, name: str, work: Work, arguments: argparse.Namespace) -> None:
    """One work: all its rounds, and its result."""
    kinds = ["megaphone", *work.peers, "stateless"]
    with harness.folder() as source:
        harness.write_batches(
            spark,
            source,
            arguments.keys or work.keys,
            arguments.rows,
            1 + WARM_UP_BATCHES + MEASURED_BATCHES,
        )

        def batches(kind: str) -> list[int]:
            is_bare = kind == "stateless"
            query, mode = (harness.stateless, "update") if is_bare else (work.query, work.mode)
            return harness.batch_ms(spark, kind, source, query, mode)[-MEASURED_BATCHES:]

        rounds = harness.rounds(name, arguments.rounds, kinds, batches)
    panels = {
        title: {kind: [float(take(r[kind])) for r in rounds] for kind in kinds}
        for title, take in (("Median batch", statistics.median), ("Slowest batch", max))
    }
    result = {"arguments": vars(arguments), "batches_ms": rounds}
    harness.save(
        f"steady-{name}", result, report(rounds, kinds, work.peers), harness.dots(panels, "ms")
    )


def report(rounds: list[dict[str, list[int]]], kinds: list[str], peers: list[str]) -> str:
    """The table: medians of each round's batches, and the 99th percentile over the batches of all
    rounds.
    """
    p50 = [{kind: float(statistics.median(ms)) for kind, ms in r.items()} for r in rounds]
    p99 = {
        kind: statistics.quantiles(
            [ms for r in rounds for ms in r[kind]], n=100, method="inclusive"
        )[-1]
        for kind in kinds
    }
    batches = len(rounds) * MEASURED_BATCHES
    lines = [
        f"| provider | p50 ms, median of rounds (spread) | p99 ms of {batches} batches |",
        "|---|---|---|",
    ]
    for kind in kinds:
        lines.append(
            f"| {kind} | {harness.median_and_spread([r[kind] for r in p50])} | {p99[kind]:.0f} |"
        )
    typical = harness.median_and_spread(harness.ratios(p50, "megaphone", peers))
    lines += ["", f"p50 against the better stock provider of the same round: {typical}"]
    slowest = p99["megaphone"] / min(p99[peer] for peer in peers)
    lines += ["", f"p99 against the better stock provider: {slowest:.2f}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
