# SPDX-License-Identifier: Apache-2.0
"""Executors that Spark gives no more tasks: it decommissions or excludes them."""

import os
import signal

import pytest

from testkit.driver_process import MakeDriver
from testkit.elastic import ELASTIC
from testkit.placement import (
    REPLICAS,
    drain_of,
    finish_relocations,
    is_copied,
    recovered_later,
    relocation_of,
    relocations_of,
    state_of,
    status_of,
    wait_for_standbys,
    workers_by_executor,
)
from testkit.remote import MakeRemoteQuery
from testkit.waiting import until


@pytest.mark.slow
@pytest.mark.parametrize("executors", [2, 3])
def test_an_idle_executor_with_state_ends_after_the_time_for_cached_data(
    executors: int, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {
        **ELASTIC,
        "spark.decommission.enabled": "true",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "10s",
        "spark.dynamicAllocation.initialExecutors": str(executors),
        "spark.dynamicAllocation.executorIdleTimeout": "60s",  # the query starts meanwhile
    }
    driver = make_driver(**settings)
    query = make_remote_query(driver).spread()
    query.run()  # what the first batch of a run has written is settled with its second one
    until(lambda: len(driver.call("executors")) == 1, "the idle ones have ended", 120)
    assert {row["cause"] for row in driver.call("drains")} == {"decommissioned"}
    if executors == 2:  # of three, those that end may have been each other's targets
        (staying,) = driver.call("executors")
        (worker,) = (worker for worker in (0, 1) if query.executor_of(worker) != staying)
        until(lambda: is_copied(query, worker), "its state comes, though no batch does")
        assert relocations_of(query, worker)[-1]["why"] == "drain"
        query.run()
        assert workers_by_executor(query) == {staying: 2}
        assert recovered_later(query) == []
    query.run(3)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("executors", [1, 3])
def test_all_executors_are_decommissioned_at_once(
    executors: int, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    master = f"local-cluster[{executors},1,1024]"
    driver = make_driver(**{"spark.master": master, "spark.decommission.enabled": "true"})
    query = make_remote_query(driver)
    query.run(3)
    leaving = driver.executors()
    for process in leaving.values():
        os.kill(process, signal.SIGPWR)
    until(lambda: not leaving.keys() & driver.executors().keys(), "they have ended", 120)
    query.run(3)  # on others, once there are some
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("migrates", "within"),
    [(True, "30s"), (False, "30s"), (False, "2s")],
    ids=["with blocks", "at once", "in two seconds"],
)
def test_a_decommissioned_executor_is_emptied(
    migrates: bool, within: str, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(
        **{
            "spark.master": "local-cluster[3,1,1024]",
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": str(migrates).lower(),
            "spark.executor.decommission.killInterval": within,
        }
    )
    query = make_remote_query(driver).spread()
    leaving = query.executor_of(0)
    os.kill(driver.executors()[leaving], signal.SIGPWR)
    until(lambda: drain_of(driver, leaving) is not None, "Spark has told of it")
    assert (drain_of(driver, leaving) or {})["cause"] == "decommissioned"
    query.run()
    assert driver.call("stages")[-1]["localities"] == ["PROCESS_LOCAL"] * 2
    query.run()
    assert query.executor_of(0) != leaving
    if within == "30s":  # else it may have ended before the next batch was planned
        assert relocation_of(query, 0)["why"] == "drain"
    until(lambda: leaving not in driver.executors(), "it has ended", 120)
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("copies", ["none", "made", "kept"])
@pytest.mark.parametrize("told_by", ["PWR", "TERM"])
def test_what_a_decommissioned_executor_without_time_has_is_where_it_is_elsewhere(
    told_by: str,
    copies: str,
    make_driver: MakeDriver,
    make_remote_query: MakeRemoteQuery,
) -> None:
    driver = make_driver(
        **{
            "spark.master": "local-cluster[3,1,1024]",
            "spark.decommission.enabled": "true",
            "spark.executor.decommission.signal": told_by,
            "spark.executor.decommission.killInterval": "0s",
        }
    )
    settings = {
        # Nothing is copied once the query has begun: a byte a second.
        "none": {"spark.megaphone.transfer.maxBytesPerSecond": "1"},
        "made": {},  # by then, while no batch runs
        "kept": {REPLICAS: "1"},
    }
    query = make_remote_query(driver, **settings[copies]).spread()
    if copies == "made":
        query.run()  # what the first batch of a run has written is settled with its second one
    if copies == "kept":
        wait_for_standbys(query)
    leaving = query.executor_of(0)
    with driver.occupied(leaving):  # it lives until its task has ended
        os.kill(driver.executors()[leaving], getattr(signal, f"SIG{told_by}"))
        until(lambda: status_of(driver, leaving) == "overdue", "Spark has told of it")
        until(lambda: len(relocations_of(query, 0)) == 1, "its worker leaves")
        if copies == "made":
            until(lambda: is_copied(query, 0), "its state is where it goes")
        begun = relocation_of(query, 0)
        assert (begun["source"], begun["why"], begun["status"]) == (leaving, "drain", "taken")
        assert begun["bytes_ready"] == (0 if copies == "none" else begun["bytes"])
        query.run(2)
        assert query.executor_of(0) == begun["target"]
        # One that has no executor of its own, or waits for one that gets no tasks, is less near.
        assert driver.call("stages")[-1]["localities"] == ["PROCESS_LOCAL"] * 2
        finish_relocations(query)
        assert relocation_of(query, 0)["status"] == "done"
        recovered = {row["worker"] for row in recovered_later(query)}
        assert recovered == ({0} if copies == "none" else set())
    until(lambda: leaving not in driver.executors(), "it has ended", 120)
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2, 30])
def test_what_gets_out_before_a_deadline_is_not_read_from_the_checkpoint(
    seconds: int, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(
        **{
            "spark.master": "local-cluster[3,1,1024]",
            "spark.decommission.enabled": "true",
            "spark.executor.decommission.forceKillTimeout": f"{seconds}s",
        }
    )
    # A byte a second: as if there were so much state that it takes longer than two seconds.
    rate = {"spark.megaphone.transfer.maxBytesPerSecond": "1"} if seconds == 2 else {}
    query = make_remote_query(driver, **rate).spread()
    query.run()  # what the first batch of a run has written is settled with its second one
    leaving = query.executor_of(0)
    with driver.occupied(leaving):  # it lives until its time is up
        os.kill(driver.executors()[leaving], signal.SIGPWR)
        until(lambda: len(relocations_of(query, 0)) == 1, "its worker leaves")
        if seconds == 2:
            until(lambda: leaving not in driver.executors(), "its time is up")
        else:
            until(lambda: is_copied(query, 0), "its state is where it goes")
            assert status_of(driver, leaving) == "draining"
            assert leaving in driver.executors()
        begun = relocation_of(query, 0)
        assert begun["bytes"] > 0
        assert begun["bytes_ready"] == (0 if seconds == 2 else begun["bytes"])
        query.run()
        assert query.executor_of(0) == begun["target"]
        assert driver.call("stages")[-1]["localities"] == ["PROCESS_LOCAL"] * 2
        read = [(row["worker"], row["is_recovery"]) for row in recovered_later(query)]
        assert read == ([(0, True)] if seconds == 2 else [])
    until(lambda: leaving not in driver.executors(), "it has ended", 120)
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
def test_an_executor_that_is_excluded_takes_no_state_until_it_may_again(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(
        **{
            "spark.excludeOnFailure.enabled": "true",
            "spark.excludeOnFailure.timeout": "30s",
            "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "1",
            "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": "3",
        }
    )
    query = make_remote_query(driver).spread()
    failing, other = query.executor_of(0), query.executor_of(1)
    driver.call("fail_tasks_of", process=driver.executors()[failing])
    until(lambda: state_of(driver, failing) == "leaving", "Spark excludes the executor")
    query.run(2)
    assert workers_by_executor(query) == {other: 2}
    until(lambda: state_of(driver, failing) == "active", "Spark gives it tasks again", 120)
    query.run(6)
    assert workers_by_executor(query) == {other: 2}, "nobody has spread them"
    query.call("spread")
    finish_relocations(query)
    assert workers_by_executor(query) == {failing: 1, other: 1}
    query.stop_and_check()
