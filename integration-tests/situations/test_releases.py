# SPDX-License-Identifier: Apache-2.0
"""Executors that are emptied and ended, and nothing is started in their place."""

import contextlib
from pathlib import Path

import pytest

from testkit.cluster import standalone_cluster
from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.elastic import is_released
from testkit.folders import fresh
from testkit.placement import drain_of, recovered_later, status_of, workers_by_executor
from testkit.remote import MakeRemoteQuery
from testkit.waiting import until

BATCHES = 60


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
    dies: bool, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
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


def is_batch_amid(driver: DriverProcess, since: int) -> bool:
    """Whether one part of a batch is done, and no task of the next one has begun."""
    stages = [stage for stage in driver.call("stages") if stage["stage"] >= since]
    told = [(stage["status"], len(stage["localities"])) for stage in stages[-2:]]
    return told == [("COMPLETE", 1), ("ACTIVE", 0)]


def reason_of(driver: DriverProcess, executor: str) -> str:
    return str((drain_of(driver, executor) or {}).get("reason"))


def is_replaced(driver: DriverProcess, executor: str, before: list[str]) -> bool:
    now = driver.call("executors")
    return executor not in now and len(now) == len(before)
