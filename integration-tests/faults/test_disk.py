# SPDX-License-Identifier: Apache-2.0
"""Local disks that are full while state is beyond its memory: a sentence, and nothing is lost.

The full disk is the operating system's own limit on the size of files, set on executors while they
run: pages of state cannot be written any more, while shuffles and state files, which are small
here, still can.
"""

import resource
import sys
from dataclasses import replace

import pytest

from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.input import MANY_ROWS
from testkit.on_demand import incomplete, takes_effect, until_complete
from testkit.placement import (
    REPLICAS,
    drain_of,
    finish_relocations,
    newest_batch,
    read_later,
    recovered_later,
    wait_for_standbys,
)
from testkit.remote import PATIENCE_BATCHES, MakeRemoteQuery, RemoteQuery
from testkit.waiting import until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of other processes are Linux's own"
)
BINS = 32
FEWER_ROWS = replace(MANY_ROWS, rows=500, step=500)
SMALL = 3  # bins that need no disk
FILE_BYTES_MAX = 512 << 10  # above all other files here, far below the size of a file of pages
STATE_AND_STANDBY = 700_000  # more than half of the keys of one worker take
DROPPED = "Standbys were dropped, 1 in all, for a batch had no room for its own state. "
NEEDS_DISK = "Give the executor more local disk, or its state more memory."


@pytest.fixture
def driver(make_driver: MakeDriver) -> DriverProcess:
    """One whose executors have memory for half of the state."""
    return make_driver(
        **{"spark.megaphone.memory.budget": "800k", "spark.megaphone.bins": str(BINS)}
    )


def limit(driver: DriverProcess, executors: list[str], bytes_max: int = FILE_BYTES_MAX) -> None:
    processes = driver.executors()
    for executor in executors:
        resource.prlimit(
            processes[executor], resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY)
        )


def uneven(query: RemoteQuery) -> RemoteQuery:
    """Runs it until the second worker has three bins and the first all others, most of them on
    disk.
    """
    bins = query.spread().bins_of(1)[SMALL:]
    moves = dict.fromkeys(bins, 0)
    query.finish(query.submit("move", moves, strategy="all-at-once", mode="direct"))
    query.run(12)
    return query


@pytest.mark.slow
def test_a_target_with_a_full_disk_takes_no_bins_until_it_has_room_and_the_other_moves_go_on(
    driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = uneven(make_remote_query(driver, kind="wide", pattern=FEWER_ROWS))
    target, bins = query.executor_of(1), query.bins_of(1)
    limit(driver, [target])
    away, asked = bins[-1], query.bins_of(0)
    plan = query.submit("move", dict.fromkeys(asked, 1) | {away: 0}, strategy="all-at-once")
    for _ in range(PATIENCE_BATCHES + 6):
        query.run()
        if query.plan(plan)["status"] != "preparing":
            break
    row = query.plan(plan)
    assert row["status"] == "failed", row
    assert f"Executor {target} has no room" in row["reason"]
    assert NEEDS_DISK in row["reason"]
    assert row["moves_done"] == 1
    assert query.call("stayed", id=plan) == asked
    assert query.bins_of(1) == bins[:-1]
    query.run()
    driver.check_nothing_is_held()

    limit(driver, [target], resource.RLIM_INFINITY)
    query.finish(query.move_half(0, 1))
    query.stop_and_check()


@pytest.mark.slow
def test_the_rest_of_a_step_on_demand_comes_once_there_is_room(
    driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = uneven(make_remote_query(driver, kind="wide", pattern=FEWER_ROWS))
    target, asked = query.executor_of(1), query.bins_of(0)
    limit(driver, [target])
    query.input.pattern = replace(FEWER_ROWS, rows=10, step=10)
    plan = query.submit("move", dict.fromkeys(asked, 1), strategy="all-at-once", mode="on-demand")
    takes_effect(query, plan)
    why = f"Worker 1 does not get the rest of its bins, because executor {target} has no room"
    until(lambda: why in (query.plan(plan)["reason"] or ""), "the plan says that there is no room")
    assert query.plan(plan)["status"] == "running"
    assert incomplete(query) > 0

    limit(driver, [target], resource.RLIM_INFINITY)
    until_complete(query, plan)
    assert query.plan(plan)["reason"] is None
    query.input.pattern = FEWER_ROWS
    query.run(2)
    query.stop_and_check()


@pytest.mark.slow
def test_a_worker_stays_as_long_as_there_is_no_room_where_it_is_to_go(
    driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = uneven(make_remote_query(driver, kind="wide", pattern=FEWER_ROWS))
    before = newest_batch(query)
    source, target = query.executor_of(0), query.executor_of(1)
    limit(driver, [target])
    query.call("place", workers={"0": target})
    finish_relocations(query)
    *_, ended = query.table("relocations")
    assert (ended["worker"], ended["status"]) == (0, "failed")
    assert ended["reason"] == f"Executor {target} has no room for the worker's state."
    driver.call("drain", executor=source)
    query.run(3)
    drain = drain_of(driver, source) or {}
    assert (drain["status"], drain["workers"]) == ("draining", 1)
    assert f"Executor {target} has no room for some" in drain["reason"]
    driver.call("undrain", executor=source)
    assert query.executor_of(0) == source
    assert read_later(query, 0, before) == [], "it has never left"
    query.check()

    limit(driver, [target], resource.RLIM_INFINITY)
    query.call("place", workers={"0": target})
    finish_relocations(query)
    assert query.executor_of(0) == target
    assert recovered_later(query, before) == []
    query.stop_and_check()


@pytest.mark.slow
def test_standbys_are_dropped_before_a_batch_fails_for_want_of_room(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    few, half, all_keys = (replace(MANY_ROWS, rows=rows, step=0) for rows in (10, 2500, 5000))
    # Room for a worker with all keys, or with half of them and the standby of the other.
    driver = make_driver(
        **{"spark.megaphone.memory.budget": "1280k", "spark.megaphone.bins": str(BINS)}
    )
    query = make_remote_query(driver, kind="wide", pattern=few, **{REPLICAS: "1"}).spread()
    query.input.pattern = half
    query.run()
    query.input.pattern = few
    wait_for_standbys(query)
    until(
        lambda: all(row["bytes"] > STATE_AND_STANDBY for row in driver.call("held")),
        "each has its worker's state, and all of the other's",
    )
    executors = driver.executors()
    assert not any(DROPPED in log for log in driver.executor_logs().values())
    limit(driver, list(executors))
    query.input.pattern = all_keys
    query.run()
    logs = driver.executor_logs()
    assert all(DROPPED + NEEDS_DISK in logs[executor] for executor in executors), logs
    until(
        lambda: all(row["standbys"] == 0 for row in query.table("workers")),
        "the driver hears of it",
    )
    query.input.pattern = few
    query.run()
    assert all(row["bytes_on_disk"] == 0 for row in driver.call("held"))
    assert driver.executors() == executors, "an executor has died"
    query.stop_and_check()


@pytest.mark.slow
def test_a_query_whose_disks_are_full_stops_with_a_sentence_and_goes_on_with_room(
    driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = uneven(make_remote_query(driver, kind="wide", pattern=FEWER_ROWS))
    executors = list(driver.executors())
    limit(driver, executors)
    with pytest.raises(Refused, match=NEEDS_DISK):
        query.run(30)
    assert list(driver.executors()) == executors, "an executor has died"
    limit(driver, executors, resource.RLIM_INFINITY)
    query.start(driver).run(2)
    query.stop_and_check()
