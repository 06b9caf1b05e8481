# SPDX-License-Identifier: Apache-2.0
"""Executors that die at every point of a move: the plan ends, the query goes on, and no row is
wrong.
"""

import pytest

from testkit.driver_process import DriverProcess
from testkit.faults import DRIVER_POINTS, EXECUTOR_POINTS, Faults
from testkit.placement import newest_batch, recovered_later
from testkit.remote import MakeRemoteQuery, RemoteQuery

SOURCE, TARGET = 0, 1
slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("points", "format"),
    [
        (("step-committed",), 2),
        pytest.param(EXECUTOR_POINTS, 2, marks=slow),
        pytest.param(EXECUTOR_POINTS, 1, marks=slow),
    ],
)
def test_an_executor_dies_at_each_point_of_a_prepared_move(
    points: tuple[str, ...],
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format)
    for point in points:
        victims = _die_at(query, point, "prepared", shared, faults)
        if point.startswith(("source", "target")):
            victim, source, target = victims
            assert victim == (source if point.startswith("source") else target), point
    _check(query, shared)


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("mode", ["direct", "on-demand"])
def test_an_executor_dies_at_each_point_of_a_step_that_is_not_prepared(
    mode: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format)
    for point in EXECUTOR_POINTS:
        if point.startswith("step"):
            _die_at(query, point, mode, shared, faults)
    _check(query, shared)


@slow
@pytest.mark.parametrize(
    ("moments", "mode", "format"),
    [
        (("driver-sealing",), "prepared", 2),
        (DRIVER_POINTS, "prepared", 1),
        (DRIVER_POINTS, "direct", 2),
        (DRIVER_POINTS, "on-demand", 1),
        (DRIVER_POINTS, "on-demand", 2),
    ],
)
def test_source_and_target_die_before_at_and_after_the_switch(
    moments: tuple[str, ...],
    mode: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    """The driver stands still meanwhile, so the moment is exact: before the seal, after it, a batch
    later.
    """
    query = make_remote_query(shared, format=format)
    for moment in moments:
        for victim in (SOURCE, TARGET):
            query.spread()
            pause = f"{moment}=pause"
            executor = query.executor_of(victim)
            before = newest_batch(query)
            plan = query.move_half(SOURCE, TARGET, mode=mode)
            faults.arm(pause)
            query.write(4)
            shared.send("settle", name=query.name)
            faults.wait(pause)
            shared.wait_until_paused()
            shared.kill_executor(executor)
            shared.resume()
            shared.answer()
            query.finish(plan)
            if (moment, victim, mode) == ("driver-sealed", SOURCE, "on-demand"):
                read = [row["worker"] for row in recovered_later(query, before)]
                assert TARGET in read, "nobody can be asked"
    _check(query, shared)


@slow
def test_an_executor_leaves_before_its_steps(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    plan = query.submit("rescale", 3, strategy="batched(120)", mode="prepared")
    query.run(2)
    assert query.plan(plan)["status"] in ("preparing", "running")
    before = query.plan(plan)["steps_done"]
    shared.kill_executor(query.executor_of(TARGET))
    row = query.finish(plan, within=12)
    assert before < row["steps"], "it died after the last step"
    assert row["batches"] == sorted(set(row["batches"])), "a step has a batch of its own"
    assert {r["worker"] for r in query.table("workers")} == {0, 1, 2}
    _check(query, shared)


def test_an_owner_that_was_away_does_not_serve_what_it_remembers(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    """Worker 0 goes to the other executor and gives bins away there; then it comes back to its old
    memory.
    """
    query = make_remote_query(shared).spread()
    home, away = query.executor_of(SOURCE), query.executor_of(TARGET)
    query.call("pin", worker=SOURCE, executor=away)
    query.run()
    assert query.executor_of(SOURCE) == away
    query.finish(query.move_half(SOURCE, TARGET, mode="direct"))
    query.call("pin", worker=SOURCE, executor=home)
    query.run()
    assert query.executor_of(SOURCE) == home
    query.run(3)
    _check(query, shared)


def _die_at(
    query: RemoteQuery, point: str, mode: str, driver: DriverProcess, faults: Faults
) -> tuple[str, str, str]:
    """A move during which an executor dies at a point: who died, the source's and the target's
    executor.
    """
    query.spread()
    source, target = query.executor_of(SOURCE), query.executor_of(TARGET)
    faults.arm(point)
    query.finish(query.move_half(SOURCE, TARGET, mode=mode))
    victim = faults.wait(point)
    assert victim in (source, target), f"{point} struck a process that had no part in the move"
    query.check()
    return victim, source, target


def _check(query: RemoteQuery, driver: DriverProcess) -> None:
    """No row is wrong, and nothing is left of the moves, nor of the query when it has stopped."""
    query.run(2)
    driver.check_nothing_is_held()
    query.stop_and_check()
    driver.check_nothing_is_held(workers=True)
