# SPDX-License-Identifier: Apache-2.0
"""Executors that come and go by themselves, are released, or are decommissioned by Spark."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from testkit.cluster import standalone_cluster
from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.folders import fresh
from testkit.placement import (
    REPLICAS,
    drain_of,
    finish_relocations,
    recovered_later,
    state_of,
    status_of,
    wait_for_standbys,
    workers_by_executor,
)
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.shapes import SLOW
from testkit.waiting import until

BATCHES = 60
WORKERS = 6
AUTO = {"spark.megaphone.placement.auto": "true"}
ELASTIC = {
    "spark.master": "local-cluster[3,1,1024]",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "5s",
    "spark.sql.shuffle.partitions": str(WORKERS),
}


@pytest.mark.slow
def test_a_released_executor_ends_and_nothing_is_started_in_its_place(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.master": "local-cluster[3,1,1024]"})
    query = make_remote_query(driver).spread()
    leaving = query.executor_of(0)
    driver.call("drain", executor=leaving, release=True)
    query.run_until(lambda: is_released(driver, leaving), f"{leaving} is released", within=BATCHES)
    # One that dies is replaced: whoever counts executors would now bring the released one back.
    left = driver.call("executors")
    assert leaving not in left
    victim = query.executor_of(0)
    driver.kill_executor(victim)
    until(lambda: is_replaced(driver, victim, left), "the one that died is replaced", 120)
    query.run(2)
    assert len(driver.call("executors")) == 2
    with pytest.raises(Refused, match=r"InvalidExecutors.* from 2, as many as there are"):
        driver.call("request_executors", total=1)
    assert driver.call("request_executors", total=3) == 2
    until(lambda: len(driver.call("executors")) == 3, "the one that was asked for comes", 120)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("is_gone", [False, True], ids=["stands still", "is gone"])
def test_a_release_waits_for_a_cluster_manager_that_does_not_answer_and_the_query_goes_on(
    is_gone: bool, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery, work: Path
) -> None:
    with standalone_cluster(fresh(work), workers=1, cores=3, memory="3g") as cluster:
        one_core = {"spark.executor.cores": "1", "spark.executor.memory": "1g"}
        soon = {"spark.executor.instances": "3", "spark.rpc.askTimeout": "5s"}
        driver = make_driver(**(cluster.conf() | one_core | soon))
        query = make_remote_query(driver).spread()
        leaving = query.executor_of(0)

        def is_told() -> bool:
            query.run()
            told = "could not be taken further, and is tried again" in reason_of(driver, leaving)
            return told and status_of(driver, leaving) == "cordoned"

        if is_gone:
            cluster.kill_master()
        with contextlib.nullcontext() if is_gone else cluster.frozen_master():
            driver.call("drain", executor=leaving, release=True)
            until(is_told, "the driver tells that it waits", 120)
            with pytest.raises(Refused, match="DrainTooLate"):
                driver.call("undrain", executor=leaving)
            query.run(3)
            query.check()
            assert leaving not in workers_by_executor(query)
            assert leaving in {each.id for each in cluster.executors()}
        if is_gone:
            assert status_of(driver, leaving) == "cordoned"
        else:
            until(lambda: is_released(driver, leaving), "it is released", 120)
            assert leaving not in {each.id for each in cluster.executors()}
        assert recovered_later(query) == []
        query.run(2)
        query.stop_and_check()
        driver.close()


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True], ids=["released", "dies"])
def test_an_executor_that_a_running_batch_needs_output_of_is_not_ended(
    dies: bool, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery, tmp_path: Path
) -> None:
    three = {"spark.master": "local-cluster[3,1,1024]", "spark.locality.wait": "1h"}
    driver = make_driver(**three)
    query = make_remote_query(driver).spread()
    busy = list(workers_by_executor(query))
    (leaving,) = set(driver.call("executors")) - set(busy)
    before = driver.call("stages")[-1]["stage"]
    with driver.occupied(*busy):
        # The first part of the batch can run on the third executor only, the second one cannot.
        query.write()
        until(lambda: is_batch_amid(driver, since=before + 1), "the output is there")
        if dies:
            driver.kill_executor(leaving)
        else:
            driver.call("drain", executor=leaving, release=True)
            until(
                lambda: "needs what its tasks have left" in reason_of(driver, leaving),
                "it waits for the batch",
            )
            assert status_of(driver, leaving) == "cordoned"
            assert leaving in driver.executors()
    query.settle()
    again = [stage for stage in driver.call("stages") if stage["attempt"] > 0]
    assert bool(again) == dies, "what is gone with an executor is computed again"
    if not dies:
        until(lambda: is_released(driver, leaving), "it is released")
        until(lambda: leaving not in driver.executors(), "it has ended")
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
def test_executors_of_another_resource_profile_take_no_state(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {**ELASTIC, **AUTO, "spark.dynamicAllocation.executorIdleTimeout": "1h"}
    settings["spark.sql.shuffle.partitions"] = "2"
    driver = make_driver(**settings)
    query = make_remote_query(driver)
    query.run()
    usual = set(driver.call("executors"))
    driver.call("run_on_another_profile")
    others = set(driver.call("executors")) - usual
    assert others
    query.run(8)  # it would spread over them within six
    assert not others & {row["executor"] for row in driver.call("held")}
    assert not others & set(workers_by_executor(query))
    with pytest.raises(Refused, match="UnknownExecutor"):
        driver.call("drain", executor=min(others))
    with pytest.raises(Refused, match=r"NoRequest.*dynamic allocation decides"):
        driver.call("request_executors", total=3)
    query.stop_and_check()


@pytest.mark.slow
def test_executors_come_under_load_are_used_and_go(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**ELASTIC)
    query = make_remote_query(driver, kind="slow", **AUTO)
    query.run(SLOW.start)
    query.run_until(
        lambda: sorted(workers_by_executor(query).values()) == [WORKERS // 3] * 3,
        "three executors have as many workers each",
        within=BATCHES,
    )
    query.input.batches = SLOW.stop  # from now on, batches take little time
    query.run(2)
    first, *others = sorted(driver.call("executors"))
    release(query, driver, others, within=10 * BATCHES)
    query.run(3)
    assert driver.call("executors") == [first]
    assert recovered_later(query) == [], "all state has come from other executors' standbys"
    query.stop_and_check()


@pytest.mark.slow
def test_three_executors_come_at_once_amid_a_plan_and_a_drain_and_are_used(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.master": "local-cluster[5,1,1024]"})
    query = make_remote_query(driver, **AUTO).spread()
    query.finish(query.submit("rescale", 8), within=BATCHES)
    _, leaving, *others = driver.call("executors")
    release(query, driver, others, within=2 * BATCHES)
    swapped = zip(query.bins_of(0)[:16], query.bins_of(1)[:16], strict=True)
    moves = {bin: worker for pair in swapped for bin, worker in zip(pair, (1, 0), strict=True)}
    plan = query.submit("move", moves, strategy="batched(4)")
    known = {row["id"] for row in query.table("relocations")}
    driver.call("drain", executor=leaving)
    driver.call("request_executors", total=5)

    def are_used() -> bool:
        used = {*driver.call("executors")} - {leaving}
        return len(used) == 4 and used == workers_by_executor(query).keys()

    query.run_until(are_used, "all but one have workers", within=4 * BATCHES)
    query.finish(plan, within=BATCHES)
    finish_relocations(query)
    assert are_used()
    later = [row for row in query.table("relocations") if row["id"] not in known]
    assert {(row["status"], row["reason"]) for row in later} == {("done", None)}
    assert {"drain", "spread"} == {row["why"] for row in later}
    assert recovered_later(query) == []
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("holds", [True, False])
def test_an_executor_with_state_does_not_count_as_idle(
    holds: bool, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {**ELASTIC, "spark.megaphone.allocation.holdState": str(holds).lower()}
    settings["spark.dynamicAllocation.initialExecutors"] = "3"
    settings["spark.dynamicAllocation.executorIdleTimeout"] = "20s"  # the query starts meanwhile
    settings["spark.sql.shuffle.partitions"] = "2"
    driver = make_driver(**settings)
    query = make_remote_query(driver).spread()
    used = {query.executor_of(0), query.executor_of(1)}
    until(lambda: len(driver.call("executors")) == (2 if holds else 1), "the idle ones end", 120)
    if holds:  # the third one was idle as long as these
        assert set(driver.call("executors")) == used
    query.run(2)
    assert holds == (recovered_later(query) == [])
    query.stop_and_check()


@pytest.mark.slow
def test_an_idle_executor_with_state_ends_after_the_time_for_cached_data(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {
        **ELASTIC,
        "spark.decommission.enabled": "true",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "10s",
        "spark.dynamicAllocation.initialExecutors": "3",
        "spark.dynamicAllocation.executorIdleTimeout": "20s",  # the query starts meanwhile
        "spark.sql.shuffle.partitions": "2",
    }
    driver = make_driver(**settings)
    query = make_remote_query(driver).spread()
    until(lambda: len(driver.call("executors")) == 1, "the idle ones have ended", 120)
    assert {row["cause"] for row in driver.call("drains")} == {"decommissioned"}
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
    query.run(2)
    assert query.executor_of(0) != leaving
    if within == "30s":  # else it may have ended before the next batch was planned
        assert [row["why"] for row in query.table("relocations") if row["worker"] == 0] == ["drain"]
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
    tmp_path: Path,
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
        (begun,) = relocations_of(query, 0)
        assert (begun["source"], begun["why"], begun["status"]) == (leaving, "drain", "taken")
        assert begun["bytes_ready"] == (0 if copies == "none" else begun["bytes"])
        query.run(2)
        assert query.executor_of(0) == begun["target"]
        # One that has no executor of its own, or waits for one that gets no tasks, is less near.
        assert driver.call("stages")[-1]["localities"] == ["PROCESS_LOCAL"] * 2
        finish_relocations(query)
        (ended,) = relocations_of(query, 0)
        assert ended["status"] == "done"
        recovered = {row["worker"] for row in recovered_later(query)}
        assert recovered == ({0} if copies == "none" else set())
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


def is_batch_amid(driver: DriverProcess, since: int) -> bool:
    """Whether one part of a batch is done, and no task of the next one has begun."""
    stages = [stage for stage in driver.call("stages") if stage["stage"] >= since]
    told = [(stage["status"], len(stage["localities"])) for stage in stages[-2:]]
    return told == [("COMPLETE", 1), ("ACTIVE", 0)]


def relocations_of(query: RemoteQuery, worker: int) -> list[dict[str, Any]]:
    return [row for row in query.table("relocations") if row["worker"] == worker]


def is_copied(query: RemoteQuery, worker: int) -> bool:
    """Whether the target of a worker's only relocation has all of its state."""
    (row,) = relocations_of(query, worker)
    return bool(row["bytes_ready"] == row["bytes"])


def reason_of(driver: DriverProcess, executor: str) -> str:
    return str((drain_of(driver, executor) or {}).get("reason"))


def is_replaced(driver: DriverProcess, executor: str, before: list[str]) -> bool:
    now = driver.call("executors")
    return executor not in now and len(now) == len(before)


def release(query: RemoteQuery, driver: DriverProcess, executors: list[str], within: int) -> None:
    """Runs batches until executors have been emptied and ended."""
    for executor in executors:
        driver.call("drain", executor=executor, release=True)
    query.run_until(
        lambda: all(is_released(driver, executor) for executor in executors),
        f"the executors {executors} are released",
        within=within,
    )


def is_released(driver: DriverProcess, executor: str) -> bool:
    return status_of(driver, executor) == "released"
