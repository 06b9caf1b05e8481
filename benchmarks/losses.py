# SPDX-License-Identifier: Apache-2.0
"""The batch at the loss of one of two executors, by provider, and with a replica.

`python benchmarks/losses.py [--sizes 1000000 4000000] [--rows 50000] [--rounds 5] [--in-batch]
[--format 2]`

  1. A query loads every key and gets warm, with one worker on each of two executors. With a
     replica it goes on until each worker has a standby.
  2. While no batch runs, one executor is killed. Once Spark has noticed that, the next batch runs,
     on the executor that is left: what it takes beyond the batches before is the loss, without the
     time to detect it. With `--in-batch` it is killed when half of a batch's time is over. The loss
     is then what that batch and the next one take beyond two of those before, without the time
     until Spark has noticed: state that was committed before the kill is missed by the next one.
     With format 2 tasks send the files of their commits to the standbys, with format 1 these read
     the checkpoint.
  3. Spark replaces the executor, and the next subject begins with two.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
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


def at_a_kill_within(
    spark: SparkSession, feed: Feed, query: StreamingQuery, executor: str
) -> float:
    """Runs a batch in the middle of which an executor is killed; what it takes without the time
    until Spark has noticed, in ms.
    """
    process = executors(spark)[executor]
    while not _is_amid(feed, query):
        query.processAllAvailable()
    killed_ms = time.time() * 1000
    os.kill(process, signal.SIGKILL)
    query.processAllAvailable()
    until(lambda: _noticed_ms(spark, executor) > 0, "Spark has noticed the loss", PATIENCE_S)
    return harness.durations_ms(query)[-1] - (_noticed_ms(spark, executor) - killed_ms)


def _is_amid(feed: Feed, query: StreamingQuery) -> bool:
    """Begins a batch; whether it still runs after half of the time that the last one took."""
    last_ms = harness.durations_ms(query)[-1]
    feed.write()
    time.sleep(last_ms / 2 / 1000)
    return bool(query.status["isTriggerActive"])


def _noticed_ms(spark: SparkSession, executor: str) -> int:
    """When Spark noticed that an executor was gone, in ms since 1970; 0 if it has not."""
    context: Any = spark._jsc
    jvm: Any = spark._jvm
    listed = context.sc().statusStore().executorList(False)
    for each in jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed):
        if each.id() == executor and each.removeTime().isDefined():
            return int(each.removeTime().get().getTime())
    return 0


def measured(
    spark: SparkSession, subject: str, keys: int, rows: int, *, format: int, is_in_batch: bool
) -> Round:
    """One loss: in the middle of a batch, or between two."""
    has_replica = subject == REPLICA
    spark.conf.set(REPLICAS, str(int(has_replica)))
    harness.use(spark, "megaphone" if has_replica else subject)
    harness.use_format(spark, subject, format)
    until(lambda: registered(spark) == 2, "two executors are there", PATIENCE_S)
    with harness.folder() as folder, harness.folder() as checkpoint:
        feed = Feed(spark, folder, keys, rows)
        query = feed.start(checkpoint)
        try:
            for _ in range(WARM_BATCHES):
                feed.next(query)
            if has_replica:
                until(lambda: _stand_by(feed, query), "each worker has a standby", PATIENCE_S)
            before = statistics.median(feed.next(query) for _ in range(MEASURED_BATCHES))
            victim = max(executors(spark), key=int)
            since = int(query.lastProgress["batchId"]) + 1  # type: ignore[index]
            at_loss: list[float] = []
            if is_in_batch:
                at_loss.append(at_a_kill_within(spark, feed, query, victim))
            else:
                kill(spark, victim)
            at_loss.append(feed.next(query))
            return {
                "before_ms": before,
                "at_loss_ms": at_loss[0],
                "beyond_ms": sum(at_loss) - before * len(at_loss),
                "read_bytes": _read_bytes(query, subject, since),
            }
        finally:
            query.stop()


def _stand_by(feed: Feed, query: StreamingQuery) -> bool:
    feed.next(query)
    return all(count > 0 for count in Megaphone(query).workers()["standbys"].to_pylist())


def _read_bytes(query: StreamingQuery, subject: str, since: int) -> float:
    """What was read from the checkpoint for the state from a batch on; 0 where nobody says it."""
    if not subject.startswith("megaphone"):
        return 0.0
    rows = Megaphone(query).migrations().to_pylist()
    return float(sum(r["bytes_from_checkpoint"] for r in rows if r["batch"] >= since))


def _read_nothing(subject: str, losses: list[Round]) -> str:
    """In how many of some losses nothing was read from the checkpoint, where somebody says it."""
    if not subject.startswith("megaphone"):
        return "-"
    return f"{sum(loss['read_bytes'] == 0 for loss in losses)} of {len(losses)}"


def main() -> None:
    """Measures, prints and saves."""
    arguments = harness.arguments(
        __doc__.splitlines()[0],
        [1_000_000, 4_000_000],
        has_format=True,
        in_batch="kill the executor in the middle of a batch, not between two",
    )
    is_in_batch = arguments.in_batch
    spark = harness.session(
        "local-cluster[2,1,3072]",
        2,
        spark__executor__memory="3g",
        # As docs/operations.md advises: else tasks ask for lost map output for 15 s.
        spark__shuffle__io__retryWait="1s",
    )
    rounds: dict[str, list[dict[str, Round]]] = {}
    beyond_ms: dict[str, list[float]] = {subject: [] for subject in SUBJECTS}
    lines = [
        "| keys | subject | batch before, ms | batch at the loss, ms | beyond, ms | "
        "read, MB | nothing read in | beyond, of the better of Spark's |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for keys in arguments.sizes:
        found = harness.rounds(
            f"{keys} keys",
            arguments.rounds,
            SUBJECTS,
            lambda subject, keys=keys: measured(  # type: ignore[misc]
                spark,
                subject,
                keys,
                arguments.rows,
                format=arguments.format,
                is_in_batch=is_in_batch,
            ),
        )
        rounds[str(keys)] = found
        for subject in SUBJECTS:
            of = [r[subject] for r in found]
            cell = {key: statistics.median([m[key] for m in of]) for key in of[0]}
            beyond_ms[subject].append(cell["beyond_ms"])
            beyond = [{s: r[s]["beyond_ms"] for s in SUBJECTS} for r in found]
            ratio = harness.median_and_spread(harness.ratios(beyond, subject, harness.PEERS))
            lines.append(
                f"| {keys} | {subject} | {cell['before_ms']:.0f} | {cell['at_loss_ms']:.0f} | "
                f"{cell['beyond_ms']:.0f} | {cell['read_bytes'] / 1e6:.1f} | "
                f"{_read_nothing(subject, of)} | {ratio} |"
            )
    lines += harness.slopes(beyond_ms)
    panels = {
        f"{keys} keys: the batch at the loss, beyond the batches before": {
            subject: [r[subject]["beyond_ms"] for r in found] for subject in SUBJECTS
        }
        for keys, found in rounds.items()
    }
    result = {"arguments": vars(arguments), "rounds": rounds}
    name = "losses-in-batch" if is_in_batch else "losses"
    harness.save(
        harness.with_format(name, arguments.format),
        result,
        "\n".join(lines) + "\n",
        harness.dots(panels, "ms"),
    )
    spark.stop()


if __name__ == "__main__":
    main()
