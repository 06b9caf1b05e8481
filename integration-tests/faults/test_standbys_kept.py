# SPDX-License-Identifier: Apache-2.0
"""Standbys that are being made and brought forward: who dies meanwhile, and what does not come."""

import pytest

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import USELESS, Faults
from testkit.placement import (
    REPLICAS,
    goes_on_with_standbys,
    newest_batch,
    others_stand_by_again,
    read_later,
    recovered_after_the_loss_of,
    recovered_later,
    wait_for_standbys,
    workers_by_executor,
)
from testkit.remote import MakeRemoteQuery
from testkit.scrape import counters_at
from testkit.server import taken_port
from testkit.waiting import until

WITH_UI = {"spark.ui.enabled": "true", "spark.ui.port": "0"}


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("is_whole", [False, True], ids=["made", "brought forward"])
def test_an_executor_dies_while_it_keeps_a_standby(
    is_whole: bool,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format, **{REPLICAS: "1"})
    if is_whole:
        wait_for_standbys(query.spread())
    faults.arm("standby-kept")
    query.run_until(
        lambda: faults.struck("standby-kept") is not None, "an executor dies", within=60
    )
    others_stand_by_again(query, shared)


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("dies", ["the worker's", "both"])
def test_an_executor_dies_while_another_brings_its_workers_standby_forward(
    dies: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    entry = "standby-kept=pause"
    query = make_remote_query(shared, format=format, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    before = newest_batch(query)
    faults.arm(entry)
    query.write(3)
    keeper = faults.wait(entry)
    worker = 1 if query.executor_of(0) == keeper else 0
    lost = query.executor_of(worker)
    shared.kill_executors([lost] if dies == "the worker's" else [lost, keeper])
    if dies == "the worker's":
        shared.resume_executor(keeper)
    query.settle()
    if dies == "the worker's":
        assert query.executor_of(worker) == keeper
        assert recovered_later(query, before) == []
    else:
        assert {row["worker"] for row in recovered_later(query, before)} == {0, 1}
    query.check()
    others_stand_by_again(query, shared)


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("lost", [1, 2], ids=["one", "both"])
def test_executors_die_while_they_make_standbys_for_each_other(
    lost: int, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    slow = {REPLICAS: "1", "spark.megaphone.transfer.maxBytesPerSecond": "20k"}
    query = make_remote_query(shared, format=format, **slow).spread()
    query.run(2)
    until(
        lambda: [row["workers"] for row in shared.call("held")] == [2, 2],
        "each has its own worker's state, and loads the other's",
    )
    assert all(row["standbys"] == 0 for row in query.table("workers")), "it takes long"
    shared.kill_executors([*workers_by_executor(query)][:lost])
    query.run(2)
    query.check()
    shared.wait_for_executors()
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("is_whole", [False, True], ids=["made", "brought forward"])
def test_the_driver_dies_while_a_standby_is_kept(
    is_whole: bool,
    format: int,
    make_driver: MakeDriver,
    own_faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    first, second = make_driver(**own_faults.settings), make_driver()
    query = make_remote_query(first, format=format, **{REPLICAS: "1"})
    if is_whole:
        wait_for_standbys(query.spread())
    own_faults.arm("standby-kept=pause")
    query.write(3)
    keeper = own_faults.wait("standby-kept=pause")
    assert keeper in first.executors(), "it stands still in the midst of it"
    first.kill()
    goes_on_with_standbys(query, second)


@pytest.mark.slow
@pytest.mark.parametrize("what", USELESS)
def test_a_file_that_does_not_reach_a_standby_is_read_from_the_checkpoint(
    what: str, shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    entry = f"file-pushed={what}"
    query = make_remote_query(shared, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    faults.arm(entry)
    query.run_until(lambda: faults.struck(entry) is not None, "a file is sent", within=5)
    wait_for_standbys(query)
    assert not recovered_after_the_loss_of(0, query, shared)
    query.check()
    query.stop_and_check()
    shared.wait_for_executors()


@pytest.mark.slow
def test_a_file_that_reaches_a_standby_late_is_not_applied_twice(
    shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    entry = "file-pushed=hang"
    query = make_remote_query(shared, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    faults.arm(entry)
    query.write()
    sender = faults.wait(entry)
    query.run(2)
    wait_for_standbys(query)  # by the checkpoint: all files of the executor wait behind this one
    faults.release(entry)
    query.run(2)
    wait_for_standbys(query)
    worker = 0 if query.executor_of(0) == sender else 1
    assert not recovered_after_the_loss_of(worker, query, shared)
    query.check()
    query.stop_and_check()
    shared.wait_for_executors()


@pytest.mark.slow
@pytest.mark.parametrize("is_over", [False, True], ids=["in its batch", "after its batch"])
def test_an_executor_dies_before_it_has_sent_a_file(
    is_over: bool, shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    entry = "file-pushed=hang"
    query = make_remote_query(shared, **{REPLICAS: "1"}).spread()
    wait_for_standbys(query)
    before = newest_batch(query)
    faults.arm(entry)
    query.write()
    sender = faults.wait(entry)
    if is_over:
        query.settle()
    worker = 0 if query.executor_of(0) == sender else 1
    standby = query.executor_of(1 - worker)
    shared.kill_executor(sender)
    query.run(2)
    assert query.executor_of(worker) == standby
    assert recovered_later(query, before) == []
    query.check()
    others_stand_by_again(query, shared)


@pytest.mark.slow
def test_standbys_are_kept_by_files_where_none_can_be_sent(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    with taken_port() as settings:
        driver = make_driver(**settings, **WITH_UI)
        query = make_remote_query(driver, **{REPLICAS: "1"}).spread()
        wait_for_standbys(query)
        before, counted = newest_batch(query), counters_at(driver.call("ui"))
        query.finish(query.move_half(0, 1, mode="replicated"))
        came = [row for row in read_later(query, 1, before) if row["bins_in"]]
        assert [row["bins_in"] == row["bins_relabelled"] for row in came] == [True]
        wait_for_standbys(query)
        assert not recovered_after_the_loss_of(0, query, driver)
        driver.wait_for_executors()  # the next one finds no port either
    read = query.migrations_after(before)
    expected = {
        "bins_from_checkpoint": 0,
        "bins_recovered": 0,
        "bytes_from_checkpoint": sum(row["bytes_from_checkpoint"] for row in read),
        "bytes_from_peer": 0,
        "executors_lost": 1,
        "workers_lost": 1,
        "workers_promoted": 1,
    }
    now = counters_at(driver.call("ui"))
    assert {name: now[name] - counted[name] for name in expected} == expected
    query.stop_and_check()
