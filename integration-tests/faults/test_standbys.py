# SPDX-License-Identifier: Apache-2.0
"""Executors that stand by for workers: the loss of one costs the tails that its standbys lack."""

from typing import Any

import pytest

from testkit.driver_process import DriverProcess
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.waiting import until

REPLICAS = "spark.megaphone.replicas"
STANDBY_SECONDS = 60


@pytest.mark.parametrize("format", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_killed_executors_workers_go_on_where_they_have_standbys(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format, **{REPLICAS: "1"}).spread()
    for victim in (0, 1):
        wait_for_standbys(query.spread())
        assert not recovered_after_the_loss_of(victim, query, shared)
        query.check()
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
def test_standbys_follow_the_bins_through_plans(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **{REPLICAS: "1"}).spread()
    for workers in (4, 2, 3):
        query.finish(query.submit("rescale", workers, strategy="batched(64)"))
        wait_for_standbys(query)
        assert len(query.table("workers")) == workers
        assert not recovered_after_the_loss_of(workers - 1, query, shared)
        shared.wait_for_executors()
    query.stop_and_check()


def wait_for_standbys(query: RemoteQuery) -> None:
    """Runs batches until each worker has a standby with all of its state."""

    def all_stand_by() -> bool:
        query.run()
        return all(row["standbys"] == 1 for row in query.table("workers"))

    until(all_stand_by, "each worker has a standby", STANDBY_SECONDS)


def recovered_after_the_loss_of(
    worker: int, query: RemoteQuery, driver: DriverProcess
) -> list[dict[str, Any]]:
    """Kills a worker's executor; what was then read from the checkpoint, whole workers."""
    (before,) = {row["last_batch"] for row in query.table("workers")}
    driver.kill_executor(query.executor_of(worker))
    query.run(2)
    moves = query.table("migrations")
    return [row for row in moves if row["is_recovery"] and row["batch"] > before]
