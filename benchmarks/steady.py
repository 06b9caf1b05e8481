# SPDX-License-Identifier: Apache-2.0
"""The steady batch, without any plan: counts and sums per key on each provider, and with no state at all.

`python benchmarks/steady.py [--keys 400000] [--rows 100000] [--rounds 5]`
"""

from __future__ import annotations

import argparse
import statistics

import harness
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from tqdm import tqdm

WARM_UP_BATCHES = 12
MEASURED_BATCHES = 12


def aggregate(stream: DataFrame) -> DataFrame:
    """The query: count and sum per key."""
    return stream.groupBy("k").agg(sf.count("*").alias("n"), sf.sum("v").alias("s"))


def stateless(stream: DataFrame) -> DataFrame:
    """The same input and exchange, with no state."""
    return stream.repartition("k").select("k", "v")


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=400_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=4)
    arguments = parser.parse_args()
    spark = harness.session("local[2]", arguments.partitions)
    kinds = ["megaphone", "hdfs", "rocksdb", "stateless"]
    p50: list[dict[str, float]] = []
    p99: list[dict[str, float]] = []
    with harness.folder() as source:
        harness.write_batches(
            spark, source, arguments.keys, arguments.rows, 1 + WARM_UP_BATCHES + MEASURED_BATCHES
        )
        # The first round is not counted: it warms up what all kinds share.
        order = list(harness.turned(1 + arguments.rounds, kinds))
        for number, kind in tqdm(order, desc="steady", unit="run"):
            if len(p50) == number:
                p50.append({})
                p99.append({})
            query = stateless if kind == "stateless" else aggregate
            measured = harness.batch_ms(spark, kind, source, query)[-MEASURED_BATCHES:]
            p50[number][kind] = statistics.median(measured)
            p99[number][kind] = max(measured)
    del p50[0], p99[0]
    panels = {
        title: {kind: [r[kind] for r in rounds] for kind in kinds}
        for title, rounds in (("Median batch", p50), ("Slowest batch", p99))
    }
    result = {"arguments": vars(arguments), "p50_ms": p50, "max_ms": p99}
    harness.save("steady", result, report(p50, p99, kinds), harness.dots(panels, "ms"))
    spark.stop()


def report(p50: list[dict[str, float]], p99: list[dict[str, float]], kinds: list[str]) -> str:
    """The table."""
    lines = ["| provider | p50 ms, median of rounds (spread) | slowest batch ms |", "|---|---|---|"]
    for kind in kinds:
        typical = harness.median_and_spread([r[kind] for r in p50])
        slowest = harness.median_and_spread([r[kind] for r in p99])
        lines.append(f"| {kind} | {typical} | {slowest} |")
    for name, rounds in (("p50", p50), ("slowest batch", p99)):
        ratio = harness.median_and_spread(harness.ratios(rounds, "megaphone", ["hdfs", "rocksdb"]))
        lines += ["", f"{name} against the better stock provider of the same round: {ratio}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
