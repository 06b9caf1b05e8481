# SPDX-License-Identifier: Apache-2.0
"""What is done to the running query.

A second executor joins and gets workers. The query is rescaled, and in the middle of that the first
executor is killed. A third executor joins, and one is killed while others stand by for its workers;
the query beside it has no standbys. One is drained, and ended. Then the query is scaled down.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from demo.report import Loss, Outcome, Reads
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
_BATCHES_BEFORE = 5  # a kill, to compare with
# Of the query that is acted on; the one beside it goes without.
SETTINGS = {"spark.megaphone.replicas": "1", "spark.megaphone.placement.auto": "true"}


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
    trigger = f"{round(every_s * 1000)} milliseconds"
    with (
        _settings(spark),
        _started("totals", load.totals(stream), "update", totals, checkpoints, trigger) as query,
        _settings(spark, are_set=False),
        _started("firsts", load.firsts(stream), "append", firsts, checkpoints, trigger) as beside,
    ):
        watch = Watch(query, BATCHES, deadline)
        handle = Megaphone(query)
        watch.until(lambda: _has_begun(handle), "the query began")
        losses = _act(Stage(spark, cluster, watch, handle, {"totals": query, "firsts": beside}))
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
        losses=losses,
    )


@dataclass(frozen=True)
class Stage:
    """Where it happens: the cluster, and both queries; `totals` is the one that is acted on."""

    spark: SparkSession
    cluster: Cluster
    watch: Watch
    handle: Megaphone
    queries: dict[str, StreamingQuery]


def _act(stage: Stage) -> dict[str, Loss]:
    watch, handle = stage.watch, stage.handle
    _join(stage, "second")
    _rescale_and_kill(stage)
    watch.run(1)
    _join(stage, "third")
    losses = _kill(stage)
    _release(stage)
    with watch.act("rescale 4 → 3"):
        watch.done(handle.rescale(3, strategy=STRATEGY, mode=MODE))
    return losses


@contextmanager
def _settings(spark: SparkSession, *, are_set: bool = True) -> Iterator[None]:
    """For the queries that are started in the block."""
    for key, value in SETTINGS.items():
        if are_set:
            spark.conf.set(key, value)
        else:
            spark.conf.unset(key)
    yield


@contextmanager
def _started(
    name: str, rows: DataFrame, mode: str, answers: Answers, checkpoints: Path, trigger: str
) -> Iterator[StreamingQuery]:
    query = (
        rows.writeStream.queryName(name)
        .outputMode(mode)
        .foreachBatch(answers.take)
        .option("checkpointLocation", str(checkpoints / name))
        .trigger(processingTime=trigger)
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


def _join(stage: Stage, which: str) -> None:
    watch = stage.watch
    with watch.act(f"{which} executor joins"):
        # One that was killed has been replaced; the other one may not have reported yet.
        before = _reporting() | {executor.id for executor in stage.cluster.executors()}
        stage.cluster.add_worker()
        watch.until(lambda: bool(_reporting() - before), f"the {which} executor came")
        watch.say(f"    executor {min(_reporting() - before, key=int)} is there")
        watch.until(lambda: _places(stage.handle) == _reporting(), "all executors had workers")
        watch.say("    it has workers")


def _rescale_and_kill(stage: Stage) -> None:
    watch = stage.watch
    with watch.act("rescale 2 → 4"):
        plan = stage.handle.rescale(4, strategy=STRATEGY, mode=MODE)
        watch.until(lambda: plan.progress >= 0.5, "half of the bins had moved")
        _kill_executor(stage, min(_places(stage.handle), key=int))
        watch.done(plan)


def _kill(stage: Stage) -> dict[str, Loss]:
    """Kills an executor while others stand by for the workers of the first query."""
    watch = stage.watch
    watch.until(lambda: _have_standbys(stage.handle), "others stood by for all workers")
    last = _last_batches(stage)
    both = set.intersection(*(_places(Megaphone(query)) for query in stage.queries.values()))
    _kill_executor(stage, min(both or _places(stage.handle), key=int))
    watch.until(
        lambda: all(now > last[name] + 1 for name, now in _last_batches(stage).items()),
        "both queries had gone on",
    )
    watch.until(lambda: _have_standbys(stage.handle), "others stood by again")
    return {name: _loss(query, last[name]) for name, query in stage.queries.items()}


def _last_batches(stage: Stage) -> dict[str, int]:
    """The last batch of each query."""
    return {name: int(query.recentProgress[-1]["batchId"]) for name, query in stage.queries.items()}


def _loss(query: StreamingQuery, last: int) -> Loss:
    """What a loss has cost that came after a query's batch `last`."""
    seconds = {
        progress["batchId"]: progress["durationMs"]["triggerExecution"] / 1000
        for progress in query.recentProgress
        if progress["numInputRows"] > 0
    }
    return Loss(
        reads=_reads(query, last),
        batch_s=max(s for batch, s in seconds.items() if batch > last),
        before_s=median([s for batch, s in seconds.items() if batch <= last][-_BATCHES_BEFORE:]),
    )


def _reads(query: StreamingQuery, last: int) -> Reads:
    """What a query has read from the checkpoint after its batch `last`."""
    rows = Megaphone(query).migrations().to_pylist()
    return Reads.of(row for row in rows if row["batch"] > last)


def _kill_executor(stage: Stage, victim: str) -> None:
    watch, before = stage.watch, _executors(stage.spark)
    with watch.act(f"kill -9 of executor {victim}"):
        killed = stage.cluster.kill_executor(victim)
        watch.say(f"    process {killed.pid} is dead")
    watch.until(
        lambda: bool(_executors(stage.spark) - before), "the master started another executor"
    )
    watch.say("    another executor runs in its place")


def _release(stage: Stage) -> None:
    watch = stage.watch
    watch.until(lambda: _places(stage.handle) == _reporting(), "all executors had workers")
    leaving = max(_reporting(), key=int)
    last = _last_batches(stage)
    with watch.act(f"drain of executor {leaving}"):
        drain = Megaphone.drain(leaving, release=True)
        watch.until(lambda: drain.status == "released", f"executor {leaving} had ended")
        watch.say("    it was emptied, and has ended")
        watch.run(2)  # the first of which may have been planned before that
        for name, query in stage.queries.items():
            watch.say(f"    {name} read from the checkpoint: {_reads(query, last[name])}")


def _have_standbys(handle: Megaphone) -> bool:
    return all(row["standbys"] > 0 for row in handle.workers().to_pylist())


def _places(handle: Megaphone) -> set[str]:
    """The executors that the workers run on."""
    return {row["executor"] for row in handle.workers().to_pylist()}


def _reporting() -> set[str]:
    """The ids of the executors that have reported."""
    return {row["executor"] for row in Megaphone.executors().to_pylist()}


def _executors(spark: SparkSession) -> set[int]:
    """The ports of the driver and of the executors that it knows: a new process has a new port."""
    context: Any = spark.sparkContext._jsc
    return {info.port() for info in context.sc().statusTracker().getExecutorInfos()}
