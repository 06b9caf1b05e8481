# SPDX-License-Identifier: Apache-2.0
"""Steps on demand: a batch brings the keys that it has, the rest comes later, and no row is wrong,
whoever dies or does not answer.
"""

import os
import signal
from typing import Any

import pytest

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import DEMAND_POINTS, USELESS, Faults
from testkit.input import FEW_ROWS, MANY_ROWS
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.shapes import MOVED
from testkit.waiting import until

# The rest of what a step took does not come while it is looked at.
NO_REST = {"spark.megaphone.transfer.maxBytesPerSecond": "1"}
BATCHES = 40
# Operators that look at all rows of their state in each batch, for what is due by time, or that ask
# for all rows and look at none.
SCANNING = {
    **dict.fromkeys(("windows", "window updates", "unique", "seen", "first"), MANY_ROWS),
    **dict.fromkeys(("sessions", "met", "long visits", "long tallies"), FEW_ROWS),
}
slow = pytest.mark.slow


@pytest.mark.parametrize("format", [pytest.param(1, marks=slow), 2])
def test_bins_move_on_demand_and_nothing_is_read_for_it(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format).spread()
    for source, target in ((0, 1), (1, 0)):
        plan = query.move_half(source, target, mode="on-demand")
        takes_effect(query, plan)
        query.check()
        until_complete(query, plan)
        newest = query.run(2).settle()
        told = [row["batch"] for row in query.table("migrations")]
        assert newest - 1 in told, "the next batch tells what has come"
        assert newest not in told
    assert brought(query) > 0
    assert from_checkpoint(query) == 0
    query.run(2)
    query.stop_and_check()
    shared.check_nothing_is_held(workers=True)


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", MOVED)
def test_every_operator_moves_on_demand(
    kind: str, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, kind=kind, format=format, pattern=MOVED[kind]).spread()
    query.run(3)
    query.finish(query.move_half(0, 1, mode="on-demand"))
    query.run(2)
    query.finish(query.submit("rescale", 3, mode="on-demand", strategy="all-at-once"))
    query.run(2)
    steps = query.submit("rescale", 2, mode="on-demand", strategy="batched(64)")
    query.finish(steps, within=BATCHES)
    query.run(2).flush()
    query.stop()
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", SCANNING)
def test_an_operator_that_looks_at_all_rows_leaves_those_that_are_not_due_where_they_are(
    kind: str, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(
        shared, kind=kind, format=format, pattern=SCANNING[kind], **NO_REST
    ).spread()
    query.run(3)
    for source, target in ((0, 1), (1, 0)):
        takes_effect(query, query.move_half(source, target, mode="on-demand"))
        assert left_behind(query) > 0
        query.run(8)  # all that was there has become due, or its keys have come
    assert from_checkpoint(query) == 0
    query.flush()
    query.stop()
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("dies", ["source", "target"])
@pytest.mark.parametrize("kind", MOVED)
def test_an_executor_dies_before_the_rest_has_come(
    kind: str, dies: str, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(
        shared, kind=kind, format=format, pattern=MOVED[kind], **NO_REST
    ).spread()
    query.run(3)
    source, target = query.executor_of(0), query.executor_of(1)
    takes_effect(query, query.move_half(0, 1, mode="on-demand"))
    shared.kill_executor(source if dies == "source" else target)
    query.run(3).flush()
    query.stop()
    query.check()
    shared.wait_for_executors()


@slow
@pytest.mark.parametrize("what", USELESS)
def test_an_answer_that_is_no_use_is_replaced_by_the_checkpoint(
    what: str, shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    entry = f"answer-came={what}"
    query = make_remote_query(shared, **NO_REST).spread()
    query.run(3)
    faults.arm(entry)
    takes_effect(query, query.move_half(0, 1, mode="on-demand"))
    query.run(2)
    assert faults.struck(entry) is not None
    assert from_checkpoint(query) > 0
    query.stop_and_check()


@slow
@pytest.mark.parametrize("point", DEMAND_POINTS)
def test_an_executor_dies_while_it_asks(
    point: str, shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    query.run(3)
    target = query.executor_of(1)
    faults.arm(point)
    takes_effect(query, query.move_half(0, 1, mode="on-demand"))
    query.run(3)
    assert faults.struck(point) == target
    query.check()
    shared.wait_for_executors()
    query.run(2)
    query.stop_and_check()


@slow
def test_a_source_that_hangs_is_not_waited_for_again_and_again(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.master": "local-cluster[3,1,1024]"})
    deadline = {"spark.megaphone.transfer.imageDeadlineMs": "1000"}
    query = make_remote_query(driver, **NO_REST, **deadline).spread()
    query.run(3)
    source = query.executor_of(0)
    others = [executor for executor in driver.call("executors") if executor != source]
    takes_effect(query, query.move_half(0, 1, mode="on-demand"))
    query.call("pin", worker=0, executor=others[0])
    query.run()
    assert query.executor_of(0) == others[0], "no task needs the source"
    process = driver.executors()[source]
    os.kill(process, signal.SIGSTOP)
    try:
        query.run(3)
    finally:
        os.kill(process, signal.SIGCONT)
    query.run(2)
    query.stop_and_check()


def takes_effect(query: RemoteQuery, plan: str) -> None:
    """Runs batches until all steps of a plan are sealed; bins may be incomplete then."""
    query.run_until(
        lambda: query.plan(plan)["moves_done"] == query.plan(plan)["moves"], "it takes effect"
    )


def until_complete(query: RemoteQuery, plan: str) -> None:
    """The rest comes, and no batch is needed for it."""
    until(lambda: query.plan(plan)["status"] == "done", "all has come")


def from_checkpoint(query: RemoteQuery) -> int:
    """How many bins were read from the checkpoint after the run's first batch."""
    rows: list[dict[str, Any]] = query.table("migrations")
    return sum(row["bins_from_checkpoint"] for row in rows if row["batch"] > 0)


def brought(query: RemoteQuery) -> int:
    """How many sub-bins came as batches needed them."""
    return sum(row["sub_bins"] for row in query.table("migrations"))


def left_behind(query: RemoteQuery) -> int:
    """How many bins were incomplete at the end of the newest batch in which bins came."""
    rows: list[dict[str, Any]] = query.table("migrations")
    newest = max(row["batch"] for row in rows)
    return sum(row["bins_incomplete"] for row in rows if row["batch"] == newest)
