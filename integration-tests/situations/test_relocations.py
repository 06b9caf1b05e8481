# SPDX-License-Identifier: Apache-2.0
"""Workers that go to other executors, and executors that are emptied, while the query runs."""

from collections import Counter
from typing import Any

import pytest

from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.input import Pattern
from testkit.placement import (
    finish_relocations,
    is_drained,
    newest_batch,
    read_later,
    recovered_later,
    status_of,
    workers_by_executor,
)
from testkit.remote import MakeRemoteQuery
from testkit.waiting import until

BATCHES = 40
WORKERS = 8
# After an executor has come: how far loads may still be apart after how many batches.
EVEN, EVEN_BATCHES = 1.25, 10
SAME_ROWS = Pattern(keys=2000, rows=2000, step=2000)  # state does not grow
AUTO = {"spark.megaphone.placement.auto": "true"}


@pytest.mark.parametrize("format", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_workers_go_where_they_are_sent_and_nothing_is_read_for_it(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format).spread()
    mine, other = query.executor_of(0), query.executor_of(1)
    for target in (other, mine):
        query.call("place", workers={"0": target})
        finish_relocations(query)
        assert query.executor_of(0) == target
        query.check()
    assert [row["status"] for row in query.table("relocations")] == ["done", "done"]
    assert recovered_later(query) == []
    with pytest.raises(Refused, match="EmptyPlan"):
        query.call("place", workers={"0": mine})
    with pytest.raises(Refused, match="UnknownExecutor"):
        query.call("place", workers={"0": "77"})
    with pytest.raises(Refused, match="UnknownWorker"):
        query.call("place", workers={"99": mine})
    query.stop_and_check()


def test_an_emptied_executor_may_be_killed_and_nothing_is_read_for_it(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    one = make_remote_query(shared, name="one").spread()
    two = make_remote_query(shared, name="two").spread()
    leaving, staying = one.executor_of(0), one.executor_of(1)
    assert shared.call("drain", executor=leaving) == "draining"
    with pytest.raises(Refused, match="LastExecutor"):
        shared.call("drain", executor=staying)

    def is_empty() -> bool:
        for query in (one, two):
            query.run()
        return is_drained(shared, leaving)

    until(is_empty, "nobody needs anything on the executor", 120)
    (held,) = (row for row in shared.call("held") if row["executor"] == leaving)
    assert (held["workers"], held["replicas"], held["blocks"]) == (0, 0, 0)
    shared.kill_executor(leaving)
    for query in (one, two):
        query.run(2)
        query.check()
        assert {query.executor_of(worker) for worker in (0, 1)} == {staying}
        assert recovered_later(query) == []
    assert is_drained(shared, leaving), "it was when it went"
    for query in (one, two):
        query.stop_and_check()
    shared.wait_for_executors()


def test_workers_are_placed_and_executors_emptied_by_sql(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    mine, other = query.executor_of(0), query.executor_of(1)

    def sql(statement: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = shared.call("sql", statement=statement)
        return rows

    (begun,) = sql(f"CALL megaphone.system.place(map(0, '{other}'))")
    assert (begun["worker"], begun["source"], begun["target"]) == (0, mine, other)
    finish_relocations(query)
    (ended,) = sql("SELECT * FROM megaphone.system.relocations")
    assert ended["status"] == "done"
    assert query.executor_of(0) == other
    (spread,) = sql("CALL megaphone.system.spread(0.1)")
    assert (spread["source"], spread["target"], spread["why"]) == (other, mine, "spread")
    finish_relocations(query)
    (drain,) = sql(f"CALL megaphone.system.drain('{other}', timeout_s => 600)")
    assert (drain["executor"], drain["status"]) == (other, "draining")

    def status() -> object:
        where = f"WHERE executor = '{other}'"
        (row,) = sql(f"SELECT status FROM megaphone.system.drains {where}")
        return row["status"]

    query.run_until(lambda: status() == "drained", "it may go", within=BATCHES)
    assert {query.executor_of(worker) for worker in (0, 1)} == {mine}
    sql(f"CALL megaphone.system.undrain('{other}')")
    assert status() == "cancelled"
    assert recovered_later(query) == []
    query.stop_and_check()


def test_queries_are_placed_and_spread_by_what_all_of_them_have(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    one = make_remote_query(shared, name="one", pattern=SAME_ROWS).spread()
    mine, other = one.executor_of(0), one.executor_of(1)
    one.call("place", workers={"1": mine})
    finish_relocations(one)
    assert workers_by_executor(one) == {mine: 2}
    two = make_remote_query(shared, name="two", pattern=SAME_ROWS).run(3)
    assert workers_by_executor(two) == {other: 2}, "where the first query has nothing"
    for query in (one, two):
        with pytest.raises(Refused, match="EmptyPlan"):
            query.call("spread")
    two.stop_and_check()
    one.run().call("spread")
    finish_relocations(one)
    assert workers_by_executor(one) == {mine: 1, other: 1}, "the executor is its own again"
    one.stop_and_check()


def test_workers_are_spread_over_an_executor_that_has_come(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **AUTO).spread()
    query.finish(query.submit("rescale", WORKERS), within=BATCHES)
    shared.kill_executor(query.executor_of(0))
    query.run(2)
    shared.wait_for_executors()
    until(lambda: len(shared.call("held")) == 2, "the new executor has reported")
    known = len(query.table("migrations"))

    def is_copied() -> bool:
        begun = [row for row in query.table("relocations") if row["status"] == "making"]
        return all(row["bytes_ready"] == row["bytes"] for row in begun)

    def is_even() -> bool:
        until(is_copied, "what is on its way is there")  # however many batches that would take
        loads = Counter[str]()
        for row in query.table("workers"):
            loads[row["executor"]] += row["bytes"]
        return len(loads) == 2 and max(loads.values()) <= EVEN * min(loads.values())

    query.run_until(is_even, "both executors have as many bytes", within=EVEN_BATCHES)
    later = query.table("migrations")[known:]
    assert not any(row["is_recovery"] or row["bins_from_checkpoint"] for row in later)
    query.stop_and_check()


@pytest.mark.slow
def test_an_executor_keeps_what_it_has_when_its_drain_is_cancelled(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    leaving = query.executor_of(0)
    shared.call("drain", executor=leaving)
    assert shared.call("undrain", executor=leaving) == "cancelled"
    query.run(6)
    assert query.executor_of(0) == leaving
    with pytest.raises(Refused, match="UnknownExecutor"):
        shared.call("drain", executor="77")
    query.stop_and_check()


@pytest.mark.slow
def test_what_is_left_when_the_time_is_up_is_read_from_the_checkpoint(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    # No copy is ever made: a byte a second.
    slow = {"spark.megaphone.transfer.maxBytesPerSecond": "1"}
    query = make_remote_query(shared, **slow).spread()
    leaving = query.executor_of(0)
    shared.call("drain", executor=leaving, within=0.5)
    until(lambda: status_of(shared, leaving) == "overdue", "its time is up")
    before = newest_batch(query)
    query.run(2)
    assert query.executor_of(0) != leaving
    read = read_later(query, 0, before)
    assert [row["is_recovery"] for row in read] == [True], "all bins at once"
    assert read[0]["bytes_from_checkpoint"] > 0
    assert recovered_later(query, before) == read, "the other worker has stayed"
    query.stop_and_check()
    shared.call("undrain", executor=leaving)


@pytest.mark.slow
def test_steps_and_relocations_of_the_same_workers(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.master": "local-cluster[3,1,1024]"})
    query = make_remote_query(driver)
    query.run(2)
    plan = query.submit("rescale", 5, strategy="batched(100)")
    for executor in driver.call("executors"):
        driver.call("drain", executor=executor)
        query.run_until(
            lambda executor=executor: is_drained(driver, executor),  # type: ignore[misc]
            f"executor {executor} is empty",
            within=2 * BATCHES,
        )
        driver.call("undrain", executor=executor)
        query.check()
    query.finish(plan, within=BATCHES)
    assert recovered_later(query) == []
    query.stop_and_check()


@pytest.mark.slow
def test_a_worker_goes_once_its_new_executor_has_time_for_it(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.locality.wait": "100ms"})
    query = make_remote_query(driver).spread()
    source, target = query.executor_of(0), query.executor_of(1)

    def is_taken() -> bool:
        rows = [row for row in query.table("relocations") if row["target"] == target]
        return bool(rows) and rows[-1]["batch"] is not None

    with driver.occupied(target):
        query.call("place", workers={"0": target})
        query.run_until(is_taken, "a batch has placed it there", within=BATCHES)
        query.run(3)
        assert query.executor_of(0) == source
        query.check()
    query.run_until(lambda: query.executor_of(0) == target, "the worker is there", within=BATCHES)
    assert [row for row in recovered_later(query) if row["worker"] == 0] == []
    query.stop_and_check()


@pytest.mark.slow
def test_a_worker_that_lands_on_a_third_executor_goes_back(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    # It is on its way for as long as is needed: a byte a second.
    slow = {"spark.megaphone.transfer.maxBytesPerSecond": "1"}
    driver = make_driver(**{"spark.master": "local-cluster[3,1,1024]"})
    query = make_remote_query(driver, **slow).spread()
    source, target = query.executor_of(0), query.executor_of(1)
    third = next(e for e in driver.call("executors") if e not in (source, target))
    query.call("place", workers={"0": target})
    query.run()
    assert query.executor_of(0) == source
    query.call("pin", worker=0, executor=third)
    query.run()
    assert query.executor_of(0) == third
    assert [row["worker"] for row in recovered_later(query)] == [0]
    query.run(3)
    assert query.executor_of(0) == source, "where it was placed, and its state is"
    assert [row["worker"] for row in recovered_later(query)] == [0]
    query.stop_and_check()


@pytest.mark.slow
def test_an_idle_query_holds_no_drain_up(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    busy = make_remote_query(shared, name="busy").spread()
    idle = make_remote_query(shared, name="idle").spread()
    idle.run()  # what the first batch of a run has written is settled with its second one
    leaving = idle.executor_of(0)
    shared.call("drain", executor=leaving)

    def is_empty() -> bool:
        busy.run()
        return is_drained(shared, leaving)

    until(is_empty, "the other query counts as idle, and its state is elsewhere", 120)
    shared.kill_executor(leaving)
    for query in (idle, busy):
        query.run(2)
        assert recovered_later(query) == []
        query.stop_and_check()
    shared.wait_for_executors()


@pytest.mark.slow
def test_a_drain_holds_when_its_query_starts_again(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    leaving = query.executor_of(0)
    shared.call("drain", executor=leaving)
    query.stop()
    query.begin()
    query.run(2)
    assert leaving not in workers_by_executor(query)
    query.run_until(lambda: is_drained(shared, leaving), "it is empty", within=BATCHES)
    shared.call("undrain", executor=leaving)
    query.stop_and_check()


@pytest.mark.slow
def test_two_of_three_executors_are_emptied_at_once(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.master": "local-cluster[3,1,1024]"})
    query = make_remote_query(driver).spread()
    query.finish(query.submit("rescale", WORKERS), within=BATCHES)
    *leaving, staying = driver.call("executors")
    for executor in leaving:
        driver.call("drain", executor=executor)
    with pytest.raises(Refused, match="LastExecutor"):
        driver.call("drain", executor=staying)
    query.run_until(
        lambda: all(is_drained(driver, executor) for executor in leaving),
        f"the executors {leaving} are empty",
        within=2 * BATCHES,
    )
    assert workers_by_executor(query) == {staying: WORKERS}
    assert recovered_later(query) == []
    query.stop_and_check()
