# SPDX-License-Identifier: Apache-2.0
"""A file system whose operations fail, and that does not rename over a file that is there: on an
executor the task is tried again, on the driver the query is started again, and no row is wrong. If
they hang, those go on who do not need them. One that asks for a credential gets the query's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.faults import FAILING, FILE_OPERATIONS, GUARDED, SECRET, Faults
from testkit.folders import fresh
from testkit.placement import REPLICAS, wait_for_standbys
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.server import taken_port
from testkit.waiting import until

slow = pytest.mark.slow
FORMATS = [pytest.param(1, marks=slow), 2]
# A step of theirs takes effect because its replicas are there, and not because patience is over.
PATIENT = {"spark.megaphone.transfer.patienceBatches": "100"}


@pytest.fixture(scope="module")
def failures(work: Path) -> Faults:
    """The fault points of the module's driver: all disarmed."""
    return Faults(fresh(work) / "faults")


@pytest.fixture(scope="module")
def driver(work: Path, failures: Faults) -> Iterator[DriverProcess]:
    """A driver with two executors of two cores each: while a task hangs, others can run. They get
    no port to ask each other at, so all that moves between them is read from files.
    """
    with taken_port() as port:
        settings = {"spark.master": "local-cluster[2,2,1024]", **port, **FAILING, **GUARDED}
        process = DriverProcess(fresh(work) / "driver", failures.settings | settings)
        yield process
        process.close()


MakeFailing = Callable[..., RemoteQuery]


@pytest.fixture
def make_failing(driver: DriverProcess, make_remote_query: MakeRemoteQuery) -> MakeFailing:
    """Makes queries whose checkpoints are on the failing file system, and starts them."""

    def make(name: str = "q", **how: Any) -> RemoteQuery:
        query = make_remote_query(name=name, **how)
        query.root = f"failing:{query.checkpoint}"
        return query.start(driver)

    return make


@pytest.mark.parametrize("format", FORMATS)
def test_files_that_fail_on_executors_cost_an_attempt(
    format: int, driver: DriverProcess, failures: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    """Executors list nothing, and open files only to recover."""
    query = make_remote_query(format=format)
    query.root = f"failing:{query.checkpoint}"

    def failing(operations: str, do: Callable[[], object]) -> None:
        entries = [f"executor-{operation}=fail" for operation in operations.split()]
        for entry in entries:
            failures.arm(entry)
        do()
        for entry in entries:
            assert (failures.struck(entry) or "").isdigit(), f"{entry} has struck no executor"

    failing("mkdirs create rename", lambda: query.start(driver).run(2))
    plan = query.submit("rescale", 4, strategy="all-at-once", mode="direct")
    failing("create rename", lambda: query.finish(plan))
    query.check()
    query.stop()
    failing("open", lambda: query.start(driver).run())
    query.finish(query.submit("rescale", 2, strategy="all-at-once", mode="prepared"))
    query.stop_and_check()


def test_a_plan_says_why_its_steps_cannot_be_prepared_as_long_as_that_is_so(
    failures: Faults, make_failing: MakeFailing
) -> None:
    query = make_failing(**PATIENT).spread()
    target = query.executor_of(1)
    failures.arm("executor-open=deny")
    plan = query.move_half(0, 1)
    query.run(6)
    until(lambda: query.plan(plan)["reason"] is not None, "the plan says what is wrong")
    row = query.run().plan(plan)
    assert row["status"] == "preparing"
    assert f"Executor {target} cannot prepare" in row["reason"]
    assert "Permission denied: open failing:" in row["reason"]
    failures.disarm("executor-open=deny")
    until(lambda: query.plan(plan)["reason"] is None, "the replica is made", 60)
    query.finish(plan)
    query.stop_and_check()


def test_a_read_that_hangs_holds_up_its_replica_alone(
    failures: Faults, make_failing: MakeFailing
) -> None:
    one = make_failing("one", **PATIENT).spread()
    other = make_failing("other", **PATIENT).spread()
    failures.arm("executor-open=hang")
    plan = one.move_half(0, 1)
    one.run_until(lambda: failures.struck("executor-open=hang") is not None, "a read hangs", 30)
    assert failures.struck("executor-open=hang") == one.executor_of(1)
    other.finish(_move_to(one.executor_of(1), other))
    one.run(2)
    assert one.plan(plan)["status"] == "preparing"
    failures.release("executor-open=hang")
    one.finish(plan)
    for query in (one, other):
        query.stop_and_check()


def test_a_commit_that_hangs_holds_up_its_query_until_that_is_started_again(
    driver: DriverProcess, failures: Faults, make_failing: MakeFailing
) -> None:
    one = make_failing("one").spread()
    other = make_failing("other", **PATIENT).spread()
    failures.arm("executor-rename=hang")
    one.write()
    # Copies wait for the tasks that run: there is one all the time.
    other.finish(_move_to(failures.wait("executor-rename=hang"), other), within=90)
    assert one.logged("commits")[-1] < one.logged("offsets")[-1]
    one.stop()
    one.start(driver).run(2)
    failures.release("executor-rename=hang")
    one.finish(one.submit("rescale", 3, strategy="all-at-once", mode="prepared"))
    for query in (one, other):
        query.stop_and_check()


def test_a_list_that_hangs_on_the_driver_holds_up_its_query_alone(
    failures: Faults, make_failing: MakeFailing
) -> None:
    one = make_failing("one").spread()
    other = make_failing("other", **PATIENT).spread()
    plan = one.move_half(0, 1)
    theirs = other.move_half(0, 1)
    failures.arm("driver-list=hang")

    def hangs() -> bool:
        one.write()
        return failures.struck("driver-list=hang") is not None

    until(hangs, "a list hangs", 120)
    other.finish(theirs)
    other.run(2)
    assert one.plan(plan)["status"] == "preparing", "its seal is not known to count"
    assert one.logged("commits")[-1] < one.logged("offsets")[-1]
    failures.release("driver-list=hang")
    one.settle()
    one.finish(plan)
    for query in (one, other):
        query.stop_and_check()


def test_files_are_opened_with_what_the_querys_session_has(
    driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    """On executors those that stand by for others and the replicas of a step read files as well."""
    refused = make_remote_query(name="refused")
    refused.root = f"guarded:{refused.checkpoint}"
    with pytest.raises(Refused, match="The secret is missing"):
        refused.start(driver)
    refused.driver = None  # it has not come to be
    query = make_remote_query(**SECRET, **{REPLICAS: "1"})
    query.root = f"guarded:{query.checkpoint}"
    wait_for_standbys(query.start(driver).spread())
    query.finish(query.submit("rescale", 4, strategy="all-at-once", mode="prepared"))
    query.stop()
    query.start(driver).run()
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_files_that_fail_on_the_driver_cost_a_start(
    format: int, own_faults: Faults, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    driver = make_driver(**own_faults.settings, **FAILING)
    for operation in FILE_OPERATIONS:
        query = make_remote_query(name=operation, format=format)
        query.root = f"failing:{query.checkpoint}"
        times = _fail_at_each_moment(query, driver, own_faults, f"driver-{operation}=fail")
        assert times > 0, f"the driver was not asked for {operation}"


def _move_to(executor: str, query: RemoteQuery) -> str:
    """Submits a plan that moves half of the bins of a worker to the one on an executor."""
    (target,) = (worker for worker in (0, 1) if query.executor_of(worker) == executor)
    return query.move_half(1 - target, target)


def _fail_at_each_moment(
    query: RemoteQuery, driver: DriverProcess, faults: Faults, entry: str
) -> int:
    """Runs a query, with a fault when it starts, when a plan is submitted, in the plan, and when it
    starts again. How often the fault has struck.
    """
    struck: list[str] = []

    def failing(do: Callable[[], object]) -> None:
        faults.arm(entry)
        try:
            do()
        except Refused as refused:
            if refused.name == "PlanLogNotWritten":
                query.run()  # it goes on, and knows then whether it has the plan
            elif "The connection was lost" in str(refused):
                with contextlib.suppress(Refused):  # it has not come to be
                    query.stop()
                query.start(driver).settle()
            else:
                raise
        struck.extend(filter(None, [faults.struck(entry)]))
        faults.disarm(entry)

    def submit() -> str:
        return query.submit("rescale", 4, strategy="batched(400)", mode="direct")

    failing(lambda: query.start(driver).run(2))
    query.run()
    failing(submit)
    if not query.table("plans"):
        submit()
    failing(lambda: query.run(2))
    query.finish(query.table("plans")[0]["id"])
    query.stop()
    failing(lambda: query.start(driver).run())
    query.stop_and_check()
    assert set(struck) <= {"driver"}
    return len(struck)
