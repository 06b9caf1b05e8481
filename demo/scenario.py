# SPDX-License-Identifier: Apache-2.0
"""What is done to the running query.

A second executor joins, and the query is rescaled so that its state spreads to it; in the middle of
that the first executor is killed. Then a worker is emptied, and the query is scaled down.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from demo.report import Outcome
from demo.sink import Answers, wrong_firsts, wrong_keys
from demo.watch import Watch
from demo.workload import BATCHES, Workload
from spark_megaphone import Megaphone
from spark_megaphone.errors import QueryNotStarted
from testkit import batch_files
from testkit.cluster import Cluster
from testkit.waiting import until

STRATEGY = "batched(128)"
MODE = "prepared"
EMPTIED = 1


def run(
    spark: SparkSession,
    cluster: Cluster,
    load: Workload,
    checkpoints: Path,
    every_s: float,
    deadline: float,
) -> Outcome:
    """Runs both queries to the end of their input, acts on the first, compares both with batch
    queries.
    """
    until(lambda: len(_executors(spark)) > 1, "an executor registers", 120)
    totals, firsts = Answers(), Answers()
    stream = batch_files.stream(spark, load.folder, load.schema)
    with (
        _started("totals", load.totals(stream), "update", totals, checkpoints, every_s) as query,
        _started("firsts", load.firsts(stream), "append", firsts, checkpoints, every_s) as beside,
    ):
        watch = Watch(query, BATCHES, deadline)
        handle = Megaphone(query)
        watch.until(lambda: _has_begun(handle), "the query began")
        _act(spark, cluster, watch, handle)
        watch.finish()
        migrations = handle.migrations()
        figure = handle.plot(figsize=(11, 6.4))
        beside.processAllAvailable()
        watch.say("all is read; the same as batch queries, to compare …")

    batch = batch_files.rows(spark, batch_files.in_order(load.folder), load.schema)
    expected, expected_firsts = load.totals(batch).toPandas(), load.firsts(batch).toPandas()
    return Outcome(
        title=load.title,
        batches=watch.batches,
        acts=watch.acts,
        migrations=migrations.to_pandas(),
        figure=figure,
        keys=len(expected),
        wrong_keys=wrong_keys(totals.all(), expected, load.key),
        firsts=len(expected_firsts),
        wrong_firsts=wrong_firsts(firsts.all(), expected_firsts),
    )


def _act(spark: SparkSession, cluster: Cluster, watch: Watch, handle: Megaphone) -> None:
    with watch.act("second executor joins"):
        before = _executors(spark)
        cluster.add_worker()
        watch.until(lambda: bool(_executors(spark) - before), "the second executor came")
        watch.say("    it is there")
    watch.run(2)
    _rescale_and_kill(spark, cluster, watch, handle)
    watch.run(2)
    _empty(watch, handle)
    watch.run(2)
    with watch.act("rescale 4 → 3"):
        watch.done(handle.rescale(3, strategy=STRATEGY, mode=MODE))


@contextmanager
def _started(
    name: str, rows: DataFrame, mode: str, answers: Answers, checkpoints: Path, every_s: float
) -> Iterator[StreamingQuery]:
    query = (
        rows.writeStream.queryName(name)
        .outputMode(mode)
        .foreachBatch(answers.take)
        .option("checkpointLocation", str(checkpoints / name))
        .trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def _has_begun(handle: Megaphone) -> bool:
    try:
        return bool(handle.workers().num_rows)
    except QueryNotStarted:
        return False


def _rescale_and_kill(
    spark: SparkSession, cluster: Cluster, watch: Watch, handle: Megaphone
) -> None:
    with watch.act("rescale 2 → 4"):
        plan = handle.rescale(4, strategy=STRATEGY, mode=MODE)
        watch.until(lambda: plan.progress >= 0.5, "half of the bins had moved")
        before = _executors(spark)
        source = handle.workers().to_pylist()[0]["executor"]
        with watch.act(f"kill -9 of executor {source}"):
            killed = cluster.kill_executor(source)
            watch.say(f"    process {killed.pid} is dead")
        watch.until(lambda: bool(_executors(spark) - before), "the master started another executor")
        watch.say("    another executor runs in its place")
        watch.done(plan)


def _empty(watch: Watch, handle: Megaphone) -> None:
    with watch.act(f"all bins off worker {EMPTIED}"):
        others = cycle(w["worker"] for w in handle.workers().to_pylist() if w["worker"] != EMPTIED)
        moves = {
            b["bin"]: next(others) for b in handle.bins().to_pylist() if b["worker"] == EMPTIED
        }
        watch.done(handle.move(moves, strategy=STRATEGY, mode=MODE))


def _executors(spark: SparkSession) -> set[int]:
    """The ports of the driver and of the executors that it knows: a new process has a new port."""
    context: Any = spark.sparkContext._jsc
    return {info.port() for info in context.sc().statusTracker().getExecutorInfos()}
