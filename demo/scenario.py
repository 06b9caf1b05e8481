# SPDX-License-Identifier: Apache-2.0
"""What is done to the running query: rescaled up, an executor killed, a worker emptied, rescaled down."""

from itertools import cycle
from pathlib import Path

from cluster import Cluster, wait_until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from demo.report import Outcome, Shares
from demo.sink import Answers, wrong_firsts, wrong_keys
from demo.watch import Watch
from demo.workload import BATCHES, Workload
from spark_megaphone import Megaphone, Plan

STRATEGY = "batched(128)"
MODE = "prepared"
EMPTIED = 1


def run(
    spark: SparkSession, cluster: Cluster, load: Workload, checkpoints: Path, every_s: float, limit_s: float
) -> Outcome:
    """Runs both queries to the end of their input, acts on the first, and compares both with batch queries."""
    wait_until(lambda: _executors(spark) == 2, "two executors did not register")
    totals, firsts = Answers(), Answers()
    stream = spark.readStream.schema(load.schema).option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    query = _start("totals", load.totals(stream), "update", totals, checkpoints, every_s)
    beside = _start("firsts", load.firsts(stream), "append", firsts, checkpoints, every_s)
    watch = Watch(query, BATCHES, limit_s)
    handle = Megaphone(query)
    watch.run(4)
    shares = Shares(handle.bins())

    plans = [_rescale_and_kill(spark, cluster, watch, handle)]
    watch.run(3)
    plans.append(_empty(watch, handle))
    watch.run(3)
    with watch.act("rescale 4 → 3"):
        plans.append(handle.rescale(3, strategy=STRATEGY, mode=MODE))
        watch.done(plans[-1])
    watch.finish()
    for plan in plans:
        shares.follow(plan.steps)
    migrations = handle.migrations()
    beside.processAllAvailable()
    watch.say("All is read; the same as batch queries, to compare …")
    query.stop()
    beside.stop()

    batch = spark.read.schema(load.schema).parquet(str(load.folder))
    expected, expected_firsts = load.totals(batch).toPandas(), load.firsts(batch).toPandas()
    return Outcome(
        title=load.title,
        batches=watch.batches,
        acts=watch.acts,
        migrations=migrations.to_pandas(),
        shares=shares,
        keys=len(expected),
        wrong_keys=wrong_keys(totals.all(), expected, load.key),
        firsts=len(expected_firsts),
        wrong_firsts=wrong_firsts(firsts.all(), expected_firsts),
    )


def _start(
    name: str, rows: DataFrame, mode: str, answers: Answers, checkpoints: Path, every_s: float
) -> StreamingQuery:
    writer = rows.writeStream.queryName(name).outputMode(mode).foreachBatch(answers.take)
    return (
        writer.option("checkpointLocation", str(checkpoints / name))
        .trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        .start()
    )


def _rescale_and_kill(spark: SparkSession, cluster: Cluster, watch: Watch, handle: Megaphone) -> Plan:
    with watch.act("rescale 2 → 4"):
        plan = handle.rescale(4, strategy=STRATEGY, mode=MODE)
        watch.until(lambda: plan.progress >= 0.5, "half of the bins have moved")
        victim = handle.workers().to_pylist()[0]["executor"]
        with watch.act(f"kill -9 of executor {victim}"):
            killed = cluster.kill_executor(victim)
            watch.say(f"    executor {victim}, process {killed.pid}, is dead")
            watch.until(
                lambda: _executors(spark) == 2 and all(e.pid != killed.pid for e in cluster.executors()),
                "the master has started another executor",
            )
            watch.say("    another one runs in its place")
        watch.done(plan)
    return plan


def _empty(watch: Watch, handle: Megaphone) -> Plan:
    with watch.act(f"all bins off worker {EMPTIED}"):
        others = cycle(w["worker"] for w in handle.workers().to_pylist() if w["worker"] != EMPTIED)
        moves = {b["bin"]: next(others) for b in handle.bins().to_pylist() if b["worker"] == EMPTIED}
        plan = handle.move(moves, strategy=STRATEGY, mode=MODE)
        watch.done(plan)
    return plan


def _executors(spark: SparkSession) -> int:
    """How many executors the driver knows, itself not counted."""
    context = spark.sparkContext._jsc
    assert context is not None
    return len(context.sc().statusTracker().getExecutorInfos()) - 1
