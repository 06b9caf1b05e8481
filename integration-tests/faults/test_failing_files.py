# SPDX-License-Identifier: Apache-2.0
"""A file system whose operations fail once each, and that does not rename over a file that is
there: on an executor the task is tried again, on the driver the query is started again, and no row
is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from testkit.driver_process import DriverProcess, MakeDriver, Refused
from testkit.faults import FAILING, FILE_OPERATIONS, Faults
from testkit.remote import MakeRemoteQuery, RemoteQuery

FORMATS = [pytest.param(1, marks=pytest.mark.slow), 2]


@pytest.mark.parametrize("format", FORMATS)
def test_files_that_fail_on_executors_cost_an_attempt(
    format: int, own_faults: Faults, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    """Executors list nothing, and open files only to recover."""
    driver = make_driver(**own_faults.settings, **FAILING)
    query = make_remote_query(format=format)
    query.root = f"failing:{query.checkpoint}"

    def failing(operations: str, do: Callable[[], object]) -> None:
        entries = [f"executor-{operation}=fail" for operation in operations.split()]
        for entry in entries:
            own_faults.arm(entry)
        do()
        for entry in entries:
            assert (own_faults.struck(entry) or "").isdigit(), f"{entry} has struck no executor"

    failing("mkdirs create rename", lambda: query.start(driver).run(2))
    plan = query.submit("rescale", 4, strategy="all-at-once", mode="direct")
    failing("create rename", lambda: query.finish(plan))
    query.check()
    query.stop()
    failing("open", lambda: query.start(driver).run())
    query.finish(query.submit("rescale", 2, strategy="all-at-once", mode="prepared"))
    query.stop_and_check()


@pytest.mark.slow
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
