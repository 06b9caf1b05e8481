# SPDX-License-Identifier: Apache-2.0
"""What users do with queries and clusters while state moves: no row is wrong, and nothing is
logged.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import spark_megaphone
import speculation
from cluster import standalone_cluster
from drivers import DriverProcess, MakeDriver
from queries import MakeQuery, Query
from streams import FIRST_WORKERS, STOCK, MakeStream, Rows, Stream, check_rows, fresh, state_of

Each = Callable[[Stream, DataFrame, int], None]
UP, DOWN = 3, 1
slow = pytest.mark.slow
BOTH_FORMATS = pytest.mark.parametrize("format", [pytest.param(1, marks=slow), 2], ids=["v1", "v2"])


def totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))


def rows_of(rows: DataFrame) -> Rows:
    return [tuple(row) for row in rows.collect()]


def run_with(make_stream: MakeStream, each: Each, **how: Any) -> Stream:
    """Runs a query through rescales up and down with that done in each batch; the answer must be
    right.
    """
    stream = make_stream(totals, each=each, **how).start().run(2)
    stream.rescale(UP)
    stream.rescale(DOWN, mode="direct")
    stream.stop()
    stream.check()
    check_rows(
        rows_of(state_of(stream.spark, stream.checkpoint).select("key.k", "value.*")),
        stream.answer(),
    )
    return stream


# ---- inside foreachBatch ----


@BOTH_FORMATS
def test_two_actions_of_a_batch_see_the_same_rows(make_stream: MakeStream, format: int) -> None:
    def twice(stream: Stream, rows: DataFrame, batch: int) -> None:
        stream.given[batch] = rows_of(rows)
        check_rows(rows_of(rows), stream.given[batch])

    run_with(make_stream, twice, format=format)


@BOTH_FORMATS
def test_a_thread_pool_of_the_first_batch_runs_the_actions_of_all(
    make_stream: MakeStream, format: int
) -> None:
    pools: list[ThreadPoolExecutor] = []

    def in_threads(stream: Stream, rows: DataFrame, batch: int) -> None:
        if not pools:
            pools.append(ThreadPoolExecutor(2))
        first, second = pools[0].map(rows_of, [rows, rows])
        check_rows(first, second)
        stream.given[batch] = first

    run_with(make_stream, in_threads, format=format)
    pools[0].shutdown()


def test_an_action_that_takes_a_few_rows_leaves_the_others_to_the_next(
    make_stream: MakeStream,
) -> None:
    def take_first(stream: Stream, rows: DataFrame, batch: int) -> None:
        few = [tuple(row) for row in rows.take(3)]
        stream.given[batch] = rows_of(rows)
        assert set(few) <= set(stream.given[batch])
        assert rows.limit(1).count() == 1

    run_with(make_stream, take_first)


def test_a_batch_that_a_task_computes_twice_is_computed_alike(make_stream: MakeStream) -> None:
    def twice_in_a_task(stream: Stream, rows: DataFrame, batch: int) -> None:
        stream.given[batch] = rows_of(rows)
        check_rows(rows_of(rows.union(rows).coalesce(1)), 2 * stream.given[batch])
        one = rows.coalesce(1)
        check_rows(
            rows_of(one.join(one.toDF("k", "m", "z"), "k")),
            [(k, n, s, n, s) for k, n, s in stream.given[batch]],
        )

    run_with(make_stream, twice_in_a_task, spark__sql__autoBroadcastJoinThreshold=-1)


@BOTH_FORMATS
def test_the_state_read_inside_a_batch_is_that_of_the_batch_before(
    make_stream: MakeStream, format: int
) -> None:
    def read_state(stream: Stream, rows: DataFrame, batch: int) -> None:
        stream.given[batch] = rows_of(rows)
        if batch > 0:
            state = state_of(rows.sparkSession, stream.checkpoint).select("key.k", "value.*")
            check_rows(rows_of(state), stream.answer(batches=slice(batch)))

    run_with(make_stream, read_state, format=format)


@BOTH_FORMATS
def test_a_stage_whose_shuffle_files_are_lost_is_run_again(
    make_stream: MakeStream, format: int
) -> None:
    lost: list[int] = []

    def lose_files(stream: Stream, rows: DataFrame, batch: int) -> None:
        first = rows_of(rows)
        local = Path(stream.spark.sparkContext.getConf().get("spark.local.dir", ""))
        files = [file for file in local.glob("blockmgr-*/*/shuffle_*") if file.is_file()]
        for file in files:
            file.unlink()
        lost.append(len(files))
        # The outputs of the map stage are registered still: the fetch fails, and both stages run
        # again.
        stream.given[batch] = rows_of(rows)
        check_rows(stream.given[batch], first)

    run_with(make_stream, lose_files, format=format)
    assert all(lost), "nothing was lost, so nothing was tried again"


# ---- sessions and restarts ----


def test_a_query_is_stopped_and_started_again_in_the_same_process(make_stream: MakeStream) -> None:
    stream = make_stream(totals).start().run(2)
    plan = stream.megaphone.rescale(UP, strategy="batched(15)")
    stream.run(2)
    stream.stop()
    stream.start().run()
    stream.run_until_done(stream.megaphone.plan(plan.id), batches_max=30)
    stream.stop()
    stream.start().run()
    assert stream.workers() == {0: UP}
    stream.check()


def test_two_queries_in_two_sessions_move_at_once(make_stream: MakeStream) -> None:
    one = make_stream(totals, format=1).start()
    other = make_stream(totals, format=2, mode="complete", spark__megaphone__bins=16).start()
    for stream in (one, other):
        stream.run(2)
    plans = [(one, one.megaphone.rescale(UP)), (other, other.megaphone.rescale(DOWN))]
    for _ in range(12):
        for stream in (one, other):
            stream.write()
        for stream in (one, other):
            stream.running.processAllAvailable()
        if all(plan.status == "done" for _, plan in plans):
            break
    assert (one.workers(), other.workers()) == ({0: UP}, {0: DOWN})
    assert (len(one.megaphone.bins()), len(other.megaphone.bins())) == (64, 16)
    for stream in (one, other):
        stream.run()
        stream.check()


@BOTH_FORMATS
def test_a_plan_spans_runs_that_take_what_is_available_now(
    make_stream: MakeStream, format: int
) -> None:
    plans: list[str] = []

    def ask(stream: Stream, rows: DataFrame, batch: int) -> None:
        stream.given[batch] = rows_of(rows)
        if batch == 1:
            plans.append(stream.megaphone.rescale(UP, strategy="batched(22)").id)
        if batch > 1:
            statuses.append(stream.megaphone.plan(plans[0]).status)

    statuses: list[str] = []
    stream = make_stream(totals, each=ask, format=format)
    stream.trigger = {"availableNow": True}
    runs = 0
    while not statuses or statuses[-1] != "done":
        runs += 1
        assert runs < 15, f"the plan did not end: {statuses}"
        stream.write()
        stream.start().running.awaitTermination()
    assert runs > 3, "the plan did not span the runs"
    assert len(list((stream.checkpoint / "state" / "0").glob("[0-9]"))) == UP
    stream.check()


# ---- clusters ----


@slow
def test_a_query_goes_on_over_another_cluster(
    make_driver: MakeDriver,
    shared: DriverProcess,
    make_query: MakeQuery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = make_driver(**{"spark.master": "local[3]"})
    monkeypatch.setattr(one, "wait_for_executors", lambda: None)  # it is its only executor itself
    query = make_query(one)
    query.feed(2)
    plan = query.submit("rescale", 5, strategy="batched(200)")
    query.feed(2)
    query.call("stop")
    one.close()
    query.start(shared).feed()
    query.finish(plan, within=30)
    assert len({query.executor_of(worker) for worker in range(5)}) == 2
    query.feed()
    query.check()


@slow
def test_speculative_attempts_of_a_task_write_the_state_once(work: Path) -> None:
    """On two hosts, for Spark does not speculate on the one that the task runs on."""
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }
    folder = fresh(work)
    with standalone_cluster(folder / "cluster", workers=1) as cluster:
        another = ["--host", "127.0.0.2", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        place = ["--work-dir", str(folder / "cluster" / "another"), cluster.url]
        cluster._start("another", "org.apache.spark.deploy.worker.Worker", [*another, *place])
        cluster.wait_for_workers(2)
        config = folder / "settings.json"
        config.write_text(json.dumps(cluster.conf() | settings))
        paths = [
            str(Path(spark_megaphone.__file__).parents[1]),
            str(Path(speculation.__file__).parent),
        ]
        ran = subprocess.run(
            [sys.executable, speculation.__file__, str(folder), str(config)],
            env=os.environ | cluster.environment() | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=1200,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.split()[-1] == str(2 * len(speculation.AT_BATCHES)), (
        "no task was tried a second time"
    )


HARMLESS = re.compile(
    # Stock Spark logs these too, in some runs: a matter of timing.
    r"DAGScheduler: Failed to cancel job group|ProcessingTimeExecutor: Current batch is falling "
    r"behind"
    r"|CoarseGrainedExecutorBackend: RECEIVED SIGNAL TERM"
    r"|WorkerWatcher: Lost connection to worker rpc endpoint"
)
LOUD = re.compile(r" (WARN|ERROR|FATAL) ([A-Za-z0-9.$]+): (.*)")


def loud_lines(driver: DriverProcess) -> list[str]:
    """What a driver and its executors logged at WARN or above."""
    logs = [driver.folder / "driver.log", *(driver.folder / "spark" / "work").rglob("stderr")]
    found = (
        LOUD.search(line) for log in logs for line in log.read_text(errors="replace").splitlines()
    )
    return [f"{match[2].rsplit('.', 1)[-1]}: {match[3]}" for match in found if match]


def shape_of(line: str) -> str:
    """A logged line without what differs from run to run."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|/\S+|\d+", "·", line)


@slow
def test_a_healthy_run_logs_nothing_that_stock_spark_does_not(
    make_driver: MakeDriver, make_query: MakeQuery
) -> None:
    def run(name: str, moves: Callable[[Query], None], **settings: str) -> list[str]:
        driver = make_driver(**settings)
        query = make_query(driver, name=name, format=1)
        query.feed(2)
        moves(query)
        query.feed(2)
        query.call("stop")
        query.start(driver).feed()
        query.call("stop")
        query.check_given_out()
        driver.close()
        return loud_lines(driver)

    def rescale(query: Query) -> None:
        for workers, mode in ((UP, "prepared"), (FIRST_WORKERS, "direct")):
            query.finish(query.submit("rescale", workers, mode=mode), within=20)

    ours = run("ours", rescale)
    stock = run(
        "stock",
        lambda query: None,
        **{"spark.sql.streaming.stateStore.providerClass": STOCK},
    )
    known = {shape_of(line) for line in stock}
    new = [line for line in ours if shape_of(line) not in known and not HARMLESS.search(line)]
    assert new == []
    assert known, "stock Spark logs a few warnings: none were found, so the logs were not read"
