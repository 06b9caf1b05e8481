# SPDX-License-Identifier: Apache-2.0
"""A query whose executors come under load and go afterwards, by dynamic allocation.

`python benchmarks/elastic.py [--sizes 1000000] [--rows 50000] [--rounds 5]`

  1. A query loads every key on one executor, and runs some light batches.
  2. Its batches get heavy: some keys cost their tasks a nap, so that cores wait and none is busy.
     Dynamic allocation starts two more executors. The plugin spreads its workers by
     `spark.megaphone.placement.auto`; Spark's providers have no such thing.
  3. Its batches are light again. The plugin's executors are drained and released; of Spark's own,
     those end that have been idle.
"""

from __future__ import annotations

import statistics
from typing import Any

import harness
from losses import registered
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from step import BELOW_TASKS, Feed
from tqdm import tqdm

from spark_megaphone import Megaphone
from testkit.waiting import until

WORKERS = 6
LIGHT, HEAVY, LATER = 10, 30, 30  # batches
SETTLED = 10  # the last heavy batches, in which all that comes has come
NAP_MS, ONE_OF = 5, 64
IDLE_S = 15
PATIENCE_S = 300
SUBJECTS = ["megaphone", *harness.PEERS]
Round = dict[str, float]


def heavy_between(first: int, end: int) -> Any:
    """The aggregate; keys whose newest value is in this range cost their tasks a nap, some do."""
    nap = f"java_method('java.lang.Thread', 'sleep', {NAP_MS}L)"  # returns null
    light = f"newest < {first} or newest >= {end} or pmod(xxhash64(k), {ONE_OF}) > 0"

    def shape(stream: DataFrame) -> DataFrame:
        rows = stream.groupBy(sf.md5(sf.col("k").cast("string")).alias("k")).agg(
            sf.count("*").alias("n"), sf.sum("v").alias("s"), sf.max("v").alias("newest")
        )
        return rows.where(f"{light} or {nap} is null")

    return shape


def measured(spark: SparkSession, subject: str, keys: int, rows: int) -> Round:
    """One round: what the batches took, and how many executors there were."""
    harness.use(spark, subject)
    until(lambda: registered(spark) == 1, "one executor is left", PATIENCE_S)
    first = (1 + LIGHT) * rows
    with harness.folder() as folder, harness.folder() as checkpoint:
        feed = Feed(spark, folder, keys, rows)
        feed.shape = heavy_between(first, first + HEAVY * rows)
        query = feed.start(checkpoint)
        try:
            light = [feed.next(query) for _ in range(LIGHT)][LIGHT // 2 :]
            heavy = [feed.next(query) for _ in range(HEAVY)]
            most = registered(spark)
            if subject == "megaphone":
                rows_of = Megaphone.executors().to_pylist()
                leaving = sorted((r["executor"] for r in rows_of), key=int)[1:]
                drains = [Megaphone.drain(executor, release=True) for executor in leaving]
            later = [feed.next(query) for _ in range(LATER)]
            if subject == "megaphone":
                until(
                    lambda: feed.next(query) > 0 and all(d.status == "released" for d in drains),
                    "the executors have ended",
                    PATIENCE_S,
                )
            return {
                "light_ms": statistics.median(light),
                "heavy_first_ms": heavy[0],
                "heavy_last_ms": statistics.median(heavy[-SETTLED:]),
                "heavy_worst_ms": max(heavy),
                "most_executors": most,
                "later_ms": statistics.median(later),
                "later_worst_ms": max(later),
                "executors_left": registered(spark),
            }
        finally:
            query.stop()


def main() -> None:
    """Measures, prints and saves."""
    arguments = harness.arguments(__doc__.splitlines()[0], [1_000_000])
    keys = arguments.sizes[0]
    spark = harness.session(
        "local-cluster[3,1,2048]",
        WORKERS,
        spark__executor__memory="2g",
        spark__executor__extraJavaOptions=BELOW_TASKS,
        spark__megaphone__placement__auto="true",
        spark__dynamicAllocation__enabled="true",
        spark__dynamicAllocation__minExecutors="1",
        spark__dynamicAllocation__maxExecutors="3",
        spark__dynamicAllocation__schedulerBacklogTimeout="1s",
        spark__dynamicAllocation__executorIdleTimeout=f"{IDLE_S}s",
        spark__dynamicAllocation__shuffleTracking__timeout=f"{IDLE_S}s",
    )
    rounds: list[dict[str, Round]] = [{} for _ in range(arguments.rounds)]
    turns = list(harness.turned(arguments.rounds, SUBJECTS))
    for number, subject in tqdm(turns, desc=f"{keys} keys", unit="run"):
        rounds[number][subject] = measured(spark, subject, keys, arguments.rows)
    lines = [
        "| provider | light, ms | heavy: first, last, worst, ms | executors | "
        "light again: median, worst, ms | executors left |",
        "|---|---|---|---|---|---|",
    ]
    for subject in SUBJECTS:
        mid = {k: statistics.median([r[subject][k] for r in rounds]) for k in rounds[0][subject]}
        lines.append(
            f"| {subject} | {mid['light_ms']:.0f} | {mid['heavy_first_ms']:.0f}, "
            f"{mid['heavy_last_ms']:.0f}, {mid['heavy_worst_ms']:.0f} | "
            f"{mid['most_executors']:.0f} | {mid['later_ms']:.0f}, {mid['later_worst_ms']:.0f} | "
            f"{mid['executors_left']:.0f} |"
        )
    panels = {
        title: {s: [r[s][key] for r in rounds] for s in SUBJECTS}
        for title, key in (
            ("heavy batches at the end, ms", "heavy_last_ms"),
            ("worst batch when it is light again, ms", "later_worst_ms"),
        )
    }
    result: dict[str, Any] = {"arguments": vars(arguments), "rounds": rounds}
    harness.save("elastic", result, "\n".join(lines) + "\n", harness.dots(panels, "ms"))
    spark.stop()


if __name__ == "__main__":
    main()
