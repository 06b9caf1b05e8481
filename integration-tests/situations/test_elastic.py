# SPDX-License-Identifier: Apache-2.0
"""Executors that come under load or when they are asked for, are used, and go."""

from pathlib import Path

import pytest

from testkit.cluster import standalone_cluster
from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.elastic import ELASTIC, release
from testkit.folders import fresh
from testkit.placement import (
    finish_relocations,
    is_drained,
    recovered_later,
    workers_by_executor,
)
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.shapes import SLOW
from testkit.waiting import until

BATCHES = 60
WORKERS = 6
SIX_WORKERS = {"spark.sql.shuffle.partitions": str(WORKERS)}
EVEN = 1.25  # equal workers, as many on each executor: their keys are not quite as many
AUTO = {"spark.megaphone.placement.auto": "true"}


@pytest.mark.slow
def test_executors_of_another_resource_profile_take_no_state(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {**ELASTIC, **AUTO, "spark.dynamicAllocation.executorIdleTimeout": "1h"}
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
    driver = make_driver(**(ELASTIC | SIX_WORKERS))
    query = make_remote_query(driver, kind="slow", **AUTO)
    use_three(query)
    first, *others = sorted(driver.call("executors"))
    release(query, driver, others, within=10 * BATCHES)
    query.run(3)
    assert driver.call("executors") == [first]
    assert recovered_later(query) == [], "all state has come from other executors' standbys"
    query.stop_and_check()


@pytest.mark.slow
def test_executors_of_a_cluster_come_have_equal_state_are_held_for_it_and_go_without(
    make_driver: MakeDriver,
    make_remote_query: MakeRemoteQuery,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ELASTIC | SIX_WORKERS
    # An empty one is looked at before it ends.
    settings["spark.dynamicAllocation.executorIdleTimeout"] = "20s"
    with standalone_cluster(fresh(work), workers=1, cores=3, memory="3g") as cluster:
        one_core = {"spark.executor.cores": "1", "spark.executor.memory": "1g"}
        driver = make_driver(**(settings | cluster.conf() | one_core))

        def processes() -> dict[str, int]:
            return {each.id: each.pid for each in cluster.executors()}

        monkeypatch.setattr(driver, "executors", processes)  # they are the cluster's
        driver.wait_for_executors()
        assert len(processes()) == 1
        query = make_remote_query(driver, kind="slow", **AUTO)
        use_three(query)
        held = driver.call("held")
        assert {row["executor"] for row in held} == processes().keys()
        assert {row["placed"] for row in held} == {WORKERS // 3}
        live = [row["live_bytes"] for row in held]
        assert 0 < max(live) <= EVEN * min(live), live
        assert all(row["bytes"] > row["live_bytes"] for row in held), held

        staying, idle, released = sorted(processes())
        driver.call("drain", executor=idle)
        check_leaves_empty(query, driver, idle)
        with driver.occupied(idle):
            query.run(3)  # so the others have been idle for longer when its task ends
        until(lambda: idle not in driver.call("executors"), "Spark ends it, for it is idle", 120)
        assert set(driver.call("executors")) == {staying, released}, "those with state are held"

        driver.call("drain", executor=released)
        check_leaves_empty(query, driver, released)
        release(query, driver, [released], within=10 * BATCHES)
        query.run(3)
        assert driver.call("executors") == [staying]
        until(lambda: list(processes()) == [staying], "the process has ended")
        assert workers_by_executor(query) == {staying: WORKERS}
        assert recovered_later(query) == [], "all state has come from other executors' standbys"
        assert query.call("is_active")
        query.stop_and_check()
        driver.close()


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
    driver = make_driver(**settings)
    query = make_remote_query(driver).spread()
    used = {query.executor_of(0), query.executor_of(1)}
    until(lambda: len(driver.call("executors")) == (2 if holds else 1), "the idle ones end", 120)
    if holds:  # the third one was idle as long as these
        assert set(driver.call("executors")) == used
    query.run(2)
    assert holds == (recovered_later(query) == [])
    query.stop_and_check()


def use_three(query: RemoteQuery) -> None:
    """Runs heavy batches until three executors are used alike, and then two light ones."""
    query.run(SLOW.start)
    query.run_until(
        lambda: sorted(workers_by_executor(query).values()) == [WORKERS // 3] * 3,
        "three executors have as many workers each",
        within=BATCHES,
    )
    query.input.batches = SLOW.stop  # from now on, batches take little time
    query.run(2)


def check_leaves_empty(query: RemoteQuery, driver: DriverProcess, executor: str) -> None:
    """Runs batches until an executor may go; it has nothing then."""
    query.run_until(lambda: is_drained(driver, executor), f"{executor} may go", within=BATCHES)
    (row,) = (row for row in driver.call("held") if row["executor"] == executor)
    kinds = ("placed", "live_bytes", "workers", "standbys", "replicas", "blocks", "bytes")
    assert not any(row[kind] for kind in kinds), row
