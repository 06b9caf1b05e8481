# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in an S3 server, through Hadoop's S3A: no row is wrong, and files are cheap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.driver_process import DriverProcess
from testkit.folders import fresh
from testkit.object_store import ObjectStore, object_store
from testkit.remote import MakeRemoteQuery

UP, DOWN = 4, 3


@pytest.fixture(scope="module")
def store(work: Path) -> Iterator[ObjectStore]:
    with object_store(fresh(work) / "s3") as server:
        yield server


@pytest.fixture(scope="module")
def driver(work: Path, store: ObjectStore) -> Iterator[DriverProcess]:
    process = DriverProcess(fresh(work) / "driver", store.settings)
    yield process
    process.close()


@pytest.mark.parametrize("format", [1, 2])
def test_a_query_moves_and_restarts_with_its_checkpoint_in_s3(
    store: ObjectStore, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    root = f"{store.root}/moves-{format}"
    query = make_remote_query(driver, format=format, checkpoint=root)
    query.spread()
    query.finish(query.submit("rescale", UP, strategy="all-at-once", mode="prepared"))
    query.finish(query.submit("rescale", DOWN, strategy="all-at-once", mode="direct"))
    store.requests()
    query.run()
    of_state = [r for r in store.requests() if ".delta" in r.path]
    assert [r.verb for r in of_state] == ["PUT"] * DOWN, "one request for each worker's file"
    query.stop()
    query.start(driver).run()
    query.finish(query.submit("rescale", UP, strategy="batched(200)", mode="direct"))
    query.stop_and_check()


def test_an_executor_dies_in_a_plan_with_its_checkpoint_in_s3(
    store: ObjectStore, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(driver, checkpoint=f"{store.root}/dies")
    query.spread()
    plan = query.submit("rescale", UP, strategy="batched(300)", mode="direct")
    query.run()
    driver.kill_executor(str(query.executor_of(0)))
    query.finish(plan, within=20)
    query.stop_and_check()


def test_of_two_writers_of_one_record_the_store_refuses_one(
    store: ObjectStore, driver: DriverProcess
) -> None:
    won = driver.call("race", root=f"{store.root}/race", numbers=40)
    assert won == [1] * 40
    answers = [r.status for r in store.requests() if "/race/megaphone/log/" in r.path]
    assert answers.count(412) >= 1, "no two writers met"
