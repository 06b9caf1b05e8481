# SPDX-License-Identifier: Apache-2.0
"""Executors that stand by for workers: the loss of one costs the tails that its standbys lack."""

import signal

import pytest

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import STANDBY_POINTS, Faults
from testkit.input import MANY_ROWS
from testkit.on_demand import SOME_KEYS, from_checkpoint
from testkit.placement import (
    REPLICAS,
    goes_on_with_standbys,
    newest_batch,
    others_stand_by_again,
    recovered_after_the_loss_of,
    recovered_later,
    wait_for_standbys,
    workers_by_executor,
)
from testkit.remote import MakeRemoteQuery
from testkit.shapes import MOVED, SLOW
from testkit.waiting import until


@pytest.mark.parametrize(
    ("format", "by"),
    [
        (2, signal.SIGKILL),
        pytest.param(2, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(1, signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_a_killed_executors_workers_go_on_where_they_have_standbys(
    format: int, by: signal.Signals, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    before = newest_batch(query)
    for victim in (0, 1):
        wait_for_standbys(query.spread())
        held = {row["executor"]: row["standbys"] for row in shared.call("held")}
        assert held == {query.executor_of(0): 1, query.executor_of(1): 1}
        assert not recovered_after_the_loss_of(victim, query, shared, by)
        query.check()
    # Under format 1 none are sent: another attempt may write a file of the same name.
    are_sent = any(row["bytes_from_peer"] for row in query.migrations_after(before))
    assert are_sent == (format == 2), "files that have been sent are read, not the checkpoint's"
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", MOVED)
def test_every_operator_goes_on_where_its_standbys_are(
    kind: str, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, kind=kind, format=format, **{REPLICAS: "1"}).spread()
    query.run(3)
    wait_for_standbys(query)
    assert not recovered_after_the_loss_of(0, query, shared)
    query.run(2).flush()
    query.stop()
    query.check()
    shared.wait_for_executors()


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("point", ["step-opened", "step-committing", "step-committed"])
def test_an_executor_dies_within_a_batch_while_another_stands_by(
    point: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    faults.arm(point)
    query.finish(query.move_half(0, 1, mode="direct"))
    faults.wait(point)
    others_stand_by_again(query, shared)


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize(
    ("executors", "wait", "is_busy"),
    # A task goes where it is wanted, however long that is busy; or where Spark sends it by default.
    [(3, "1h", True), (3, "3s", False), (4, "3s", False)],
)
def test_a_batch_whose_executor_dies_goes_on_where_the_standby_is(
    executors: int,
    wait: str,
    is_busy: bool,
    format: int,
    make_driver: MakeDriver,
    make_remote_query: MakeRemoteQuery,
) -> None:
    settings = {
        "spark.master": f"local-cluster[{executors},1,1024]",
        "spark.locality.wait": wait,
        "spark.sql.shuffle.partitions": "1",
    }
    driver = make_driver(**settings)
    query = make_remote_query(driver, kind="slow", format=format, **{REPLICAS: "1"})
    query.run(SLOW.start)
    query.input.pattern = SOME_KEYS  # quick batches
    wait_for_standbys(query)
    lost = query.executor_of(0)
    (standby,) = (row["executor"] for row in driver.call("held") if row["standbys"])
    others = {*driver.call("executors")} - {lost, standby}
    query.input.pattern = MANY_ROWS
    is_at_work = [(0, "COMPLETE", 1), (0, "ACTIVE", 1)]
    with driver.occupied(standby, *others) as free:
        # The first part of the batch runs where the worker does, so it is lost as well.
        query.write()
        until(lambda: newest_stages(driver) == is_at_work, "the worker's task runs")
        driver.kill_executor(lost)
        for executor in others if is_busy else (standby, *others):
            free(executor)
        until(lambda: newest_stages(driver)[-1][0] > 0, "its stage is to run again")
    query.settle()
    assert query.executor_of(0) == standby, "and not where there was time for it"
    assert recovered_later(query) == []
    query.stop_and_check()


@pytest.mark.slow
def test_standbys_follow_the_bins_through_plans(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **{REPLICAS: "1"}).spread()
    for workers in (4, 2, 3):
        query.finish(query.submit("rescale", workers, strategy="batched(64)", mode="replicated"))
        wait_for_standbys(query)
        assert len(query.table("workers")) == workers
        assert not recovered_after_the_loss_of(workers - 1, query, shared)
        shared.wait_for_executors()
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("worker", [0, 1], ids=["source", "target"])
def test_an_executor_of_a_step_on_demand_dies_before_the_rest_has_come(
    worker: int, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {REPLICAS: "1", "spark.megaphone.transfer.maxBytesPerSecond": "100k"}
    query = make_remote_query(shared, format=format, **settings).spread()
    wait_for_standbys(query)
    plan = query.move_half(0, 1, mode="on-demand")
    query.run_until(lambda: query.plan(plan)["moves_done"] > 0, "it takes effect")
    assert query.plan(plan)["status"] != "done", "the rest has not come"
    shared.kill_executor(query.executor_of(worker))
    query.run(2)
    query.check()
    shared.wait_for_executors()
    query.finish(plan)
    assert from_checkpoint(query) <= query.plan(plan)["moves"], "standbys have the other bins"
    wait_for_standbys(query.spread())
    query.stop_and_check()


@pytest.mark.slow
def test_a_worker_and_its_standby_die_at_once(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    shared.kill_executors(shared.call("executors"))
    shared.wait_for_executors()
    query.run(2)
    query.check()
    wait_for_standbys(query)
    query.stop_and_check()


@pytest.mark.slow
def test_the_driver_dies_and_the_next_one_has_standbys_made_anew(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    first, second = make_driver(), make_driver()
    query = make_remote_query(first, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    first.kill()
    goes_on_with_standbys(query, second)


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("point", STANDBY_POINTS)
def test_the_driver_dies_while_a_standby_takes_over(
    point: str,
    format: int,
    make_driver: MakeDriver,
    own_faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    first, second = make_driver(**own_faults.settings), make_driver()
    query = make_remote_query(first, format=format, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    lost, standby = query.executor_of(0), query.executor_of(1)
    own_faults.arm(f"{point}=pause")
    first.kill_executor(lost)
    query.write()
    assert own_faults.wait(f"{point}=pause") == standby
    first.kill()
    goes_on_with_standbys(query, second)


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("point", STANDBY_POINTS)
def test_a_standby_dies_when_it_takes_over(
    point: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    lost, standby = query.executor_of(0), query.executor_of(1)
    faults.arm(point)
    shared.kill_executor(lost)
    query.run(2)
    assert faults.struck(point) == standby
    query.check()
    others_stand_by_again(query, shared)


@pytest.mark.slow
def test_executors_die_and_are_replaced_again_and_again(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**{"spark.master": "local-cluster[3,1,1024]"})
    auto = {REPLICAS: "1", "spark.megaphone.placement.auto": "true"}
    query = make_remote_query(driver, **auto).spread()
    query.finish(query.submit("rescale", 6), within=60)
    for _ in range(4):
        wait_for_standbys(query)
        assert not recovered_after_the_loss_of(0, query, driver)
        driver.wait_for_executors()
        query.run_until(
            lambda: sorted(workers_by_executor(query).values()) == [2, 2, 2],
            "each executor has two workers",
            within=60,
        )
        query.check()
    query.stop_and_check()


def newest_stages(driver: DriverProcess) -> list[tuple[int, str, int]]:
    """Of the last two stages: the attempt, the status, and how many tasks have begun."""
    stages = driver.call("stages")[-2:]
    return [(row["attempt"], row["status"], len(row["localities"])) for row in stages]
