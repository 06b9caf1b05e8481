# SPDX-License-Identifier: Apache-2.0
"""Queries that go on over another cluster, with speculation, and what a healthy one logs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testkit import speculation
from testkit.cluster import standalone_cluster
from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import FAILING, Faults
from testkit.folders import fresh
from testkit.in_process import FIRST_WORKERS, STOCK
from testkit.placement import (
    REPLICAS,
    recovered_after_the_loss_of,
    wait_for_standbys,
)
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.server import taken_port

UP = 3
SECURE = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "of this test",
    "spark.network.crypto.enabled": "true",
}
slow = pytest.mark.slow


@slow
def test_a_query_goes_on_over_another_cluster(
    make_driver: MakeDriver,
    shared: DriverProcess,
    make_remote_query: MakeRemoteQuery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = make_driver(**{"spark.master": "local[3]"})
    monkeypatch.setattr(one, "wait_for_executors", lambda: None)  # it is its only executor itself
    query = make_remote_query(one)
    query.run(2)
    plan = query.submit("rescale", 5, strategy="batched(200)")
    query.run(2)
    query.stop()
    one.close()
    query.start(shared).run()
    query.finish(plan, within=30)
    assert len({query.executor_of(worker) for worker in range(5)}) == 2
    query.run()
    query.stop_and_check()


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
        ran = subprocess.run(
            [sys.executable, "-m", "testkit.speculation", str(folder), str(config)],
            env=os.environ | cluster.environment(),
            capture_output=True,
            text=True,
            timeout=1200,
        )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.split()[-1] == str(2 * len(speculation.AT_BATCHES)), (
        "no task was tried a second time"
    )


def from_others_and_files(query: RemoteQuery) -> tuple[int, int]:
    """Bytes that came from executors, and from files, after the first batch."""
    rows = query.migrations_after(0)
    kinds = ("bytes_from_peer", "bytes_from_checkpoint")
    others, files = (sum(row[kind] for row in rows) for kind in kinds)
    return others, files


@slow
def test_executors_that_have_a_secret_and_encrypt_ask_each_other_for_bins(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(make_driver(**SECURE)).spread()
    for source, target, mode in ((0, 1, "prepared"), (1, 0, "on-demand")):
        before, _ = from_others_and_files(query)
        query.finish(query.move_half(source, target, mode=mode))
        query.run()
        others, files = from_others_and_files(query)
        assert others > before
        assert files == 0
    query.stop_and_check()


@slow
def test_executors_that_have_a_secret_and_encrypt_stand_by_for_each_other(
    make_driver: MakeDriver, own_faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**SECURE, **FAILING, **own_faults.settings)
    query = make_remote_query(**{REPLICAS: "1"})
    query.root = f"failing:{query.checkpoint}"
    query.start(driver)
    for victim in (0, 1):
        wait_for_standbys(query.spread())
        own_faults.arm("executor-open=deny")  # so a tail is there only if it was sent
        query.run(5)
        wait_for_standbys(query)
        standby = query.executor_of(1 - victim)
        assert not recovered_after_the_loss_of(victim, query, driver)
        assert query.executor_of(victim) == standby
        query.check()
        own_faults.disarm("executor-open=deny")
        driver.wait_for_executors()
    query.stop_and_check()


@slow
def test_executors_without_a_port_read_files_and_each_says_so_once(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    with taken_port() as settings:
        driver = make_driver(**settings)
        query = make_remote_query(driver).spread()
    for source, target, mode in ((0, 1, "prepared"), (1, 0, "on-demand"), (0, 1, "direct")):
        _, before = from_others_and_files(query)
        query.finish(query.move_half(source, target, mode=mode))
        query.run()
        others, files = from_others_and_files(query)
        assert others == 0
        assert files > before
    query.stop_and_check()
    said = [line for line in loud_lines(driver) if "No port could be had" in line]
    assert len(said) == len(driver.executors()), said


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
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    def run(name: str, moves: Callable[[RemoteQuery], None], **settings: str) -> list[str]:
        driver = make_driver(**settings)
        query = make_remote_query(driver, name=name, format=1)
        query.run(2)
        moves(query)
        query.run(2)
        query.stop()
        query.start(driver).run()
        query.stop()
        query.check()
        driver.close()
        return loud_lines(driver)

    def rescale(query: RemoteQuery) -> None:
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
