# SPDX-License-Identifier: Apache-2.0
"""The first batch after the loss of one of two executors, by provider, and with a replica.

`python benchmarks/losses.py [--sizes 1000000 4000000] [--rows 50000] [--rounds 5]`

  1. A query loads every key and gets warm, with one worker on each of two executors. With a
     replica it goes on until each worker has a standby.
  2. While no batch runs, one executor is killed. Once Spark has noticed that, the next batch runs,
     on the executor that is left: what it takes beyond the batches before is the loss, without the
     time to detect it.
  3. Spark replaces the executor, and the next subject begins with two.
"""

from __future__ import annotations

import os
import signal
import statistics
from typing import Any

import harness
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from step import Feed

from spark_megaphone import Megaphone
from testkit import processes
from testkit.waiting import until

REPLICAS = "spark.megaphone.replicas"
REPLICA = "megaphone, a replica"
SUBJECTS = [REPLICA, "megaphone", *harness.PEERS]
WARM_BATCHES = 8
MEASURED_BATCHES = 5
PATIENCE_S = 180
Round = dict[str, float]


def executors(spark: SparkSession) -> dict[str, int]:
    """The process of each executor of the application, by executor id."""
    app = f"--app-id {spark.sparkContext.applicationId} "
    return processes.executors(p for p in processes.listed() if app in p.command)


def registered(spark: SparkSession) -> int:
    """How many executors Spark knows."""
    tracker: Any = spark._jsc
    return int(tracker.sc().getExecutorMemoryStatus().size()) - 1  # the driver is among them


def kill(spark: SparkSession, executor: str) -> None:
    """Kills an executor, and waits until Spark has noticed."""
    count = registered(spark)
    os.kill(executors(spark)[executor], signal.SIGKILL)
    until(lambda: registered(spark) < count, "Spark has noticed the loss", PATIENCE_S)


def measured(spark: SparkSession, subject: str, keys: int, rows: int) -> Round:
    """One loss."""
    has_replica = subject == REPLICA
    spark.conf.set(REPLICAS, str(int(has_replica)))
    harness.use(spark, "megaphone" if has_replica else subject)
    until(lambda: registered(spark) == 2, "two executors are there", PATIENCE_S)
    with harness.folder() as folder, harness.folder() as checkpoint:
        feed = Feed(spark, folder, keys, rows)
        query = feed.start(checkpoint)
        try:
            for _ in range(WARM_BATCHES):
                feed.next(query)
            if has_replica:
                until(lambda: _stand_by(feed, query), "each worker has a standby", PATIENCE_S)
            before = [feed.next(query) for _ in range(MEASURED_BATCHES)]
            kill(spark, max(executors(spark), key=int))
            at_loss = feed.next(query)
            return {
                "before_ms": statistics.median(before),
                "at_loss_ms": at_loss,
                "beyond_ms": at_loss - statistics.median(before),
                "read_bytes": _read_bytes(query, subject),
            }
        finally:
            query.stop()


def _stand_by(feed: Feed, query: StreamingQuery) -> bool:
    feed.next(query)
    return all(count > 0 for count in Megaphone(query).workers()["standbys"].to_pylist())


def _read_bytes(query: StreamingQuery, subject: str) -> float:
    """What the newest batch read from the checkpoint for its state; 0 where nobody says it."""
    if not subject.startswith("megaphone"):
        return 0.0
    batch = int(query.lastProgress["batchId"])  # type: ignore[index]
    rows = Megaphone(query).migrations().to_pylist()
    return float(sum(r["bytes_from_checkpoint"] for r in rows if r["batch"] == batch))


def main() -> None:
    """Measures, prints and saves."""
    arguments = harness.arguments(__doc__.splitlines()[0], [1_000_000, 4_000_000])
    spark = harness.session("local-cluster[2,1,3072]", 2, spark__executor__memory="3g")
    rounds: dict[str, list[dict[str, Round]]] = {}
    lines = [
        "| keys | subject | batch before, ms | batch at the loss, ms | beyond, ms | "
        "read, MB | beyond, of the better of Spark's |",
        "|---|---|---|---|---|---|---|",
    ]
    for keys in arguments.sizes:
        found = harness.rounds(
            f"{keys} keys",
            arguments.rounds,
            SUBJECTS,
            lambda subject, keys=keys: measured(spark, subject, keys, arguments.rows),  # type: ignore[misc]
        )
        rounds[str(keys)] = found
        for subject in SUBJECTS:
            of = [r[subject] for r in found]
            cell = {key: statistics.median([m[key] for m in of]) for key in of[0]}
            beyond = [{s: r[s]["beyond_ms"] for s in SUBJECTS} for r in found]
            ratio = harness.median_and_spread(harness.ratios(beyond, subject, harness.PEERS))
            lines.append(
                f"| {keys} | {subject} | {cell['before_ms']:.0f} | {cell['at_loss_ms']:.0f} | "
                f"{cell['beyond_ms']:.0f} | {cell['read_bytes'] / 1e6:.1f} | {ratio} |"
            )
    panels = {
        f"{keys} keys: the batch at the loss, beyond the batches before": {
            subject: [r[subject]["beyond_ms"] for r in found] for subject in SUBJECTS
        }
        for keys, found in rounds.items()
    }
    result = {"arguments": vars(arguments), "rounds": rounds}
    harness.save("losses", result, "\n".join(lines) + "\n", harness.dots(panels, "ms"))
    spark.stop()


if __name__ == "__main__":
    main()
