# SPDX-License-Identifier: Apache-2.0
"""Executors that are lost, or are about to end, while workers or bins are on their way to them or
from them.
"""

import os
import signal

import pytest

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import STANDBY_POINTS, Faults
from testkit.placement import (
    drain_of,
    is_copied,
    newest_batch,
    read_later,
    recovered_later,
    relocation_of,
    status_of,
)
from testkit.remote import MakeRemoteQuery
from testkit.waiting import until


@pytest.mark.slow
@pytest.mark.parametrize("is_copied_before", [False, True], ids=["lacks state", "has all state"])
@pytest.mark.parametrize("dies", ["source", "target", "both"])
def test_executors_of_a_relocation_die(
    dies: str,
    is_copied_before: bool,
    shared: DriverProcess,
    make_remote_query: MakeRemoteQuery,
) -> None:
    # Either it is copied while no batch runs, or never: a byte a second.
    rate = {} if is_copied_before else {"spark.megaphone.transfer.maxBytesPerSecond": "1"}
    query = make_remote_query(shared, **rate).spread()
    source, target = query.executor_of(0), query.executor_of(1)
    query.run(2)
    before = newest_batch(query)
    query.call("place", workers={"0": target})
    if is_copied_before:
        until(lambda: is_copied(query, 0), "the target has all of the worker's state")
    else:
        query.run(2)
    begun = relocation_of(query, 0)
    assert (begun["status"], is_copied(query, 0)) == ("making", is_copied_before)
    lost = {"source": [source], "target": [target], "both": [source, target]}[dies]
    shared.kill_executors(lost)
    until(lambda: not {*lost} & {*shared.call("executors")}, "the driver knows of it")
    shared.wait_for_executors()  # there is an empty one that a worker could go to
    query.run(2)
    ended = relocation_of(query, 0)
    assert ended["status"] == "failed"
    assert any(f"Executor {executor} " in ended["reason"] for executor in lost)
    recovered = {row["worker"] for row in recovered_later(query, before)}
    if dies == "both":
        assert recovered == {0, 1}
    elif dies == "target":
        assert recovered == {1}
        assert query.executor_of(0) == source
        assert read_later(query, 0, before) == [], "it has never left"
    elif is_copied_before:
        assert recovered == set(), "nothing but tails was read"
        assert query.executor_of(0) == target
    else:
        assert recovered == {0}
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("point", STANDBY_POINTS)
def test_the_target_dies_in_the_batch_of_a_relocation(
    point: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format).spread()
    target = query.executor_of(1)
    faults.arm(point)
    query.call("place", workers={"0": target})
    query.run_until(lambda: faults.struck(point) is not None, "the target dies", within=60)
    assert faults.struck(point) == target
    query.check()
    query.run(2)
    (row,) = query.table("relocations")
    assert row["status"] == "failed"
    query.stop_and_check()
    shared.wait_for_executors()


@pytest.mark.slow
def test_the_driver_dies_while_a_worker_is_on_its_way(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    first, second = make_driver(), make_driver()
    slow = {"spark.megaphone.transfer.maxBytesPerSecond": "20k"}
    query = make_remote_query(first, **slow).spread()
    query.call("place", workers={"0": query.executor_of(1)})
    query.run(2)
    (row,) = query.table("relocations")
    assert row["status"] == "making"
    assert row["bytes_ready"] < row["bytes"]
    first.kill()
    query.start(second).spread()
    assert query.table("relocations") == [], "the next run has other executors"
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
def test_a_draining_executor_dies(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    slow = {"spark.megaphone.transfer.maxBytesPerSecond": "20k"}
    query = make_remote_query(shared, **slow).spread()
    leaving = query.executor_of(0)
    shared.call("drain", executor=leaving)
    query.run(2)
    assert status_of(shared, leaving) == "draining"
    shared.kill_executor(leaving)
    until(lambda: status_of(shared, leaving) == "lost", "the drain has ended")
    query.run(2)
    query.check()
    shared.wait_for_executors()
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["prepared", "direct"])
def test_the_target_of_an_announced_step_is_decommissioned(
    mode: str, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(
        **{
            "spark.master": "local-cluster[3,1,1024]",
            "spark.decommission.enabled": "true",
            "spark.executor.decommission.killInterval": "0s",
        }
    )
    query = make_remote_query(driver).spread()
    source, target = query.executor_of(0), query.executor_of(1)
    moving, kept = query.bins_of(0)[::2], query.bins_of(1)
    plan = query.move_half(0, 1, mode=mode)
    query.run()
    assert query.plan(plan)["moves_done"] == 0, "the step is announced"
    with driver.occupied(target):  # it lives until its task has ended
        os.kill(driver.executors()[target], signal.SIGPWR)
        until(lambda: drain_of(driver, target) is not None, "Spark has told of it")
        query.finish(plan)
        assert query.executor_of(1) not in (source, target)
    assert query.bins_of(1) == sorted([*moving, *kept])
    until(lambda: target not in driver.executors(), "it has ended", 120)
    query.run(2)
    query.stop_and_check()
