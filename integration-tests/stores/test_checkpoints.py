# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in S3, through Hadoop's S3A, and in HDFS: no row is wrong, and old files go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from testkit.driver_process import DriverProcess
from testkit.folders import fresh
from testkit.hdfs import Hdfs, hdfs
from testkit.object_store import ObjectStore, object_store
from testkit.remote import MakeRemoteQuery

UP, DOWN = 4, 3
Store = ObjectStore | Hdfs
STORES: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {
    "s3": object_store,
    "hdfs": hdfs,
}
OLD_GO = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.megaphone.sweep.intervalBatches": "2",
    "spark.megaphone.recovery.framesMax": "2",
}


@pytest.fixture(scope="module", params=["s3", pytest.param("hdfs", marks=pytest.mark.slow)])
def store(work: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    with STORES[request.param](fresh(work) / request.param) as server:
        yield server


@pytest.mark.parametrize("format", [1, 2])
def test_a_query_moves_and_restarts(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    root = f"{store.root}/moves-{format}"
    query = make_remote_query(driver, format=format, checkpoint=root).spread()
    query.finish(query.submit("rescale", UP, strategy="all-at-once", mode="prepared"))
    query.finish(query.submit("rescale", DOWN, strategy="all-at-once", mode="direct"))
    query.stop()
    query.start(driver).run()
    query.finish(query.submit("rescale", UP, strategy="batched(200)", mode="direct"))
    query.stop_and_check()


def test_an_executor_dies_in_a_plan(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(driver, checkpoint=f"{store.root}/dies").spread()
    plan = query.submit("rescale", UP, strategy="batched(300)", mode="direct")
    query.run()
    driver.kill_executor(str(query.executor_of(0)))
    query.finish(plan, within=20)
    query.stop_and_check()


def test_old_files_are_swept_and_the_others_are_enough(
    store: Store, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(checkpoint=f"{store.root}/old", **OLD_GO)
    gone: list[str] = []

    def is_swept() -> bool:
        gone.extend(store.deleted())
        return all(any(f"/old/state/0/{w}/1_" in path for path in gone) for w in (0, 1))

    query.start(driver).run_until(is_swept, "the first files are swept", within=60)
    query.finish(query.submit("rescale", UP, strategy="all-at-once", mode="prepared"))
    query.stop()
    query.start(driver).run()
    query.check_state(batch=query.settle() - 1)
    query.stop_and_check()
