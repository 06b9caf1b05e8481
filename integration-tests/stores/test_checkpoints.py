# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in S3, through Hadoop's S3A, and in HDFS: no row is wrong, and old files go."""

from __future__ import annotations

import pytest

from testkit.answers import check_rows
from testkit.driver_process import DriverProcess, MakeDriver
from testkit.hdfs import Hdfs
from testkit.input import Pattern
from testkit.object_store import ObjectStore
from testkit.on_demand import brought
from testkit.placement import REPLICAS, wait_for_standbys
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.waiting import until

slow = pytest.mark.slow
UP, DOWN = 4, 3
Store = ObjectStore | Hdfs
OLD_GO = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.megaphone.sweep.intervalBatches": "2",
    "spark.megaphone.recovery.framesMax": "2",
}
# Executors have room for another query's tasks, though all tasks of one query hang.
ROOMY = {"spark.master": "local-cluster[2,6,1024]"}
# A quarter of the keys is in a bin that becomes large, by a hundred megabytes a batch of SOME.
FEW = Pattern(keys=1_000, rows=64, step=64)
SOME = Pattern(keys=1_000, rows=2_000, step=2_000)
LARGE_BIN, LARGE_STORE = 0, "left-keyWithIndexToValue"
PART_BYTES = 32 << 20  # as a chunk of a frame; a part of an image has less


@pytest.fixture(params=["s3", pytest.param("hdfs", marks=slow)])
def store(in_s3: ObjectStore, in_hdfs: Hdfs, request: pytest.FixtureRequest) -> Store:
    return in_s3 if request.param == "s3" else in_hdfs


@pytest.mark.parametrize("format", [pytest.param(1, marks=slow), 2])
def test_a_query_moves_and_restarts(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    root = f"{store.root}/moves-{format}"
    query = make_remote_query(driver, format=format, checkpoint=root).spread()
    query.finish(query.submit("rescale", UP, strategy="all-at-once", mode="prepared"))
    query.finish(query.submit("rescale", DOWN, strategy="all-at-once", mode="direct"))
    query.stop()
    query.start(driver).run()
    query.finish(query.submit("rescale", UP, strategy="batched(200)", mode="on-demand"))
    assert brought(query) > 0, "no batch has asked for its keys"
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_a_query_with_standbys_moves_and_restarts(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    root = f"{store.root}/stands-by-{format}"
    query = make_remote_query(driver, format=format, checkpoint=root, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    query.finish(query.submit("rescale", UP, strategy="all-at-once", mode="replicated"))
    query.finish(query.submit("rescale", DOWN, strategy="all-at-once", mode="on-demand"))
    query.stop()
    query.start(driver).run()
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_a_bin_whose_images_have_several_parts_moves_and_restarts(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    settings = {"spark.megaphone.bins": "4", "spark.megaphone.transfer.slowdown": "off"}
    root = f"{store.root}/large-{format}"
    query = make_remote_query(
        driver, kind="large", format=format, pattern=FEW, checkpoint=root, **settings
    ).spread()
    for pattern in (SOME, FEW):
        query.input.pattern = pattern
        query.run()
    for target, mode in ((1, "prepared"), (0, "direct"), (1, "on-demand")):
        query.finish(query.submit("move", {LARGE_BIN: target}, mode=mode), within=100)
        came = sum(
            row["bytes_from_peer"]
            for row in query.table("migrations")
            if row["worker"] == target and row["store"] == LARGE_STORE
        )
        assert came > 2 * PART_BYTES, f"{mode}: {query.table('migrations')}"
    query.stop()
    query.start(driver).run()
    query.stop()
    query.check()
    check_rows(*query.large_rows())


@slow
def test_an_executor_dies_in_a_plan(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(driver, checkpoint=f"{store.root}/dies").spread()
    plan = query.submit("rescale", UP, strategy="batched(300)", mode="direct")
    query.run()
    driver.kill_executor(str(query.executor_of(0)))
    query.finish(plan, within=20)
    query.stop_and_check()


@slow
def test_a_server_that_freezes_costs_its_query_time_and_nothing_else(
    store: Store, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**store.settings, **ROOMY)
    here = make_remote_query(driver, "here").run()
    query = make_remote_query(driver, "there", checkpoint=f"{store.root}/freezes").spread()
    executors = driver.executors()
    plan = query.submit("rescale", UP, strategy="batched(30)", mode="prepared")
    for _ in range(2):
        _freeze(store, query, here)
        row = query.plan(plan)
        assert row["moves_done"] < row["moves"], "the plan was done before"
        query.settle()
    query.finish(plan, within=30)
    assert driver.executors() == executors
    for each in (query, here):
        each.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_old_files_are_swept_and_the_others_are_enough(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    root = f"{store.root}/old-{format}"
    query = make_remote_query(format=format, checkpoint=root, **OLD_GO)
    first = "1_" if format == 2 else "1."
    gone: list[str] = []

    def is_swept() -> bool:
        gone.extend(store.deleted())
        parts = [f"/old-{format}/state/0/{worker}/{first}" for worker in (0, 1)]
        return all(any(part in path for path in gone) for part in parts)

    query.start(driver).run_until(is_swept, "the first files are swept", within=60)
    query.finish(query.submit("rescale", UP, strategy="all-at-once", mode="prepared"))
    query.stop()
    query.start(driver).run()
    query.check_state(batch=query.settle() - 1)
    query.stop_and_check()


def _freeze(store: Store, query: RemoteQuery, other: RemoteQuery) -> None:
    """The server stands still in the midst of a query's batches; another query goes on."""
    before = len(query.given)
    query.write(5)
    until(lambda: len(query.given) > before, "it has begun with them")
    with store.server.frozen():
        given = len(query.given)
        assert given < query.input.batches, "it has nothing left to do"
        other.run(10)
        assert len(query.given) <= given + 1, "it does not wait for the server"
