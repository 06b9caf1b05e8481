# SPDX-License-Identifier: Apache-2.0
"""While bins of a step on demand are incomplete, the driver dies, the plan is cancelled, executors
are emptied, and other plans ask for the same bins; no row is wrong.
"""

from typing import Any

import pytest

from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.input import MANY_ROWS
from testkit.on_demand import (
    NO_REST,
    SOME_KEYS,
    from_checkpoint,
    incomplete,
    left_incomplete,
    takes_effect,
)
from testkit.placement import drain_of, is_drained, recovered_later, workers_by_executor
from testkit.remote import MakeRemoteQuery
from testkit.waiting import until

BATCHES = 40
GAP_BATCHES = 3  # for so many batches a bin that has moved does not move again anyway
slow = pytest.mark.slow


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_the_driver_dies_and_the_next_one_has_whole_bins(
    format: int, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    first, second = make_driver(), make_driver()
    query = make_remote_query(first, format=format, **NO_REST).spread()
    plan = left_incomplete(query)
    query.run()
    first.kill()
    query.start(second).run(2)
    assert query.plan(plan)["status"] == "done"
    assert incomplete(query) == 0
    query.check()
    left_incomplete(query.spread(), source=1, target=0)
    query.run(2)
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("is_void", [True, False], ids=["before the step", "after the step"])
def test_a_restart_further_back_has_whole_bins(
    is_void: bool, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format, **NO_REST).spread()
    moved, kept = query.bins_of(0)[::2], query.bins_of(1)
    plan = left_incomplete(query)
    (step,) = query.plan(plan)["batches"]
    query.run(5)
    assert incomplete(query) > 0
    query.stop()
    back = step - 1 if is_void else step + 1
    query.forget_after(back)
    # What was taken back is one batch now: the source remembers its files.
    assert query.start(shared).settle() == back + 1
    assert query.plan(plan)["batches"] == [back + 1 if is_void else step]
    assert query.bins_of(1) == sorted(kept + moved)
    assert incomplete(query) == 0
    query.check()
    query.finish(plan)
    left_incomplete(query, source=1, target=0)
    query.run(2)
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_a_worker_that_is_away_for_a_batch_has_all_rows_when_it_is_back(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    """Elsewhere its bins are read from files, and written to.

    The memory that it comes back to has them incomplete, as they were before that.
    """
    query = make_remote_query(shared, format=format, **NO_REST).spread()
    away, home = query.executor_of(0), query.executor_of(1)
    left_incomplete(query)
    query.input.pattern = MANY_ROWS
    for executor in (away, home):
        query.call("pin", worker=1, executor=executor)
        query.run()
        assert query.executor_of(1) == executor
        query.run()  # the driver places the worker where it is
        query.check()
    assert from_checkpoint(query) > 0
    query.run(3)
    assert incomplete(query) == 0
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_a_cancelled_plan_stops_where_it_is_and_what_has_moved_is_completed(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format, **NO_REST).spread()
    query.run(3)
    query.input.pattern = SOME_KEYS
    moves = dict.fromkeys(query.bins_of(0)[::2], 1)
    plan = query.submit("move", moves, strategy="batched(32)", mode="on-demand")
    query.run_until(lambda: query.plan(plan)["steps_done"] > 0, "a step takes effect")
    query.call("cancel", id=plan)
    done = query.plan(plan)["moves_done"]
    query.run(GAP_BATCHES)
    row = query.plan(plan)
    assert row["status"] == "cancelled"
    assert 0 < done == row["moves_done"] < row["moves"]
    assert incomplete(query) > 0
    query.input.pattern = MANY_ROWS
    query.run_until(lambda: incomplete(query) == 0, "what has moved is complete")
    assert from_checkpoint(query) == 0
    query.finish(query.move_half(1, 0, mode="on-demand"), within=BATCHES)
    query.stop_and_check()


@slow
@pytest.mark.parametrize("mode", ["on-demand", "prepared", "direct"])
def test_a_second_plan_of_the_same_bins_waits_until_they_are_complete(
    mode: str, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **NO_REST).spread()
    moved = query.bins_of(0)[::2]
    first = left_incomplete(query)
    back = query.submit("move", dict.fromkeys(moved, 0), strategy="all-at-once", mode=mode)
    with pytest.raises(Refused, match=f"OverlappingPlan: Plan {back} is still open"):
        query.submit("move", {moved[0]: 0}, mode="on-demand")
    query.run(2 * GAP_BATCHES)
    assert query.plan(first)["status"] == "running"
    assert query.plan(back)["moves_done"] == 0
    query.check()
    query.input.pattern = MANY_ROWS
    query.finish(back, within=BATCHES)
    assert query.plan(first)["status"] == "done"
    assert set(moved) <= set(query.bins_of(0))
    query.run(2)
    query.stop_and_check()


@slow
def test_an_executor_is_not_empty_while_others_lack_what_it_has(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **NO_REST).spread()
    source = query.executor_of(0)
    left_incomplete(query)
    shared.call("drain", executor=source, within=0.001)
    query.run(2)
    assert source not in workers_by_executor(query)

    def lends_only() -> bool:
        (held,) = (row for row in shared.call("held") if row["executor"] == source)
        reason = (drain_of(shared, source) or {})["reason"] or ""
        return held["workers"] == 0 and "1 exports" in reason

    until(lends_only, "it keeps what its worker has lent, and nothing else")
    assert incomplete(query) > 0
    query.input.pattern = MANY_ROWS
    query.run_until(lambda: incomplete(query) == 0, "all has come")
    query.run_until(lambda: is_drained(shared, source), "it may go", within=BATCHES)
    shared.kill_executor(source)
    assert from_checkpoint(query) == 0
    query.run(2)
    shared.wait_for_executors()
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("worker", [0, 1], ids=["source", "target"])
def test_an_emptied_executor_may_be_killed_though_bins_were_incomplete(
    worker: int, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    rate = {"spark.megaphone.transfer.maxBytesPerSecond": "20k"}
    query = make_remote_query(shared, format=format, **rate).spread()
    leaving = query.executor_of(worker)
    plan = left_incomplete(query)
    shared.call("drain", executor=leaving)

    def is_empty() -> bool:
        query.run()
        return is_drained(shared, leaving)

    until(is_empty, "nobody needs anything on the executor", 180)
    shared.kill_executor(leaving)
    query.run(2)
    assert from_checkpoint(query) == 0
    assert recovered_later(query) == []
    query.finish(plan, within=BATCHES)
    query.check()
    shared.wait_for_executors()
    query.run(2)
    query.stop_and_check()


@slow
def test_a_step_on_demand_is_asked_for_and_followed_by_sql(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **NO_REST).spread()
    query.run(3)
    query.input.pattern = SOME_KEYS

    def sql(statement: str) -> dict[str, Any]:
        (row,) = shared.call("sql", statement=statement)
        return dict(row)

    moves = ", ".join(f"{bin}, 1" for bin in query.bins_of(0)[::2])
    how = f"mode => 'on-demand', strategy => 'all-at-once', query => '{query.name}'"
    plan = sql(f"CALL megaphone.system.move(map({moves}), {how})")
    assert plan["mode"] == "on-demand"
    takes_effect(query, plan["id"])
    left = sql("SELECT sum(bins_incomplete) n, sum(bytes_to_come) b FROM megaphone.system.workers")
    assert 0 < left["n"] < plan["moves"]
    assert left["b"] > 0
    came = sql("SELECT sum(sub_bins) n, sum(questions) q FROM megaphone.system.migrations")
    assert came["n"] > came["q"] > 0
    query.input.pattern = MANY_ROWS
    query.finish(plan["id"])
    done = sql(f"CALL megaphone.system.wait('{plan['id']}', query => '{query.name}')")
    assert done["status"] == "done"
    query.stop_and_check()
