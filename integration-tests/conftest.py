# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: drivers in other processes, a session in this one, fault
points.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import Faults
from testkit.folders import fresh, temporary
from testkit.in_process import InProcessQuery, MakeQuery
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.session import local_session
from testkit.shapes import Shape

_TAIL_BYTES = 6000


@pytest.fixture(scope="session")
def work() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with temporary("megaphone-test-") as folder:
        yield folder


@pytest.fixture(scope="session")
def faults(work: Path) -> Faults:
    """The fault points of the shared driver: all disarmed."""
    return Faults(work / "faults")


@pytest.fixture
def own_faults(work: Path) -> Faults:
    """The fault points of a test's own drivers."""
    return Faults(fresh(work) / "faults")


@pytest.fixture(scope="session")
def shared(work: Path, faults: Faults) -> Iterator[DriverProcess]:
    """A driver with two executors of one core each; each test has queries of its own on it."""
    driver = DriverProcess(work / "shared", faults.settings)
    yield driver
    driver.close()


@pytest.fixture
def make_remote_query(work: Path) -> Iterator[MakeRemoteQuery]:
    """Makes queries for driver processes; those that a failed test has left running are stopped."""
    made: list[RemoteQuery] = []
    folder = fresh(work)

    def make(driver: DriverProcess | None = None, name: str = "q", **how: Any) -> RemoteQuery:
        query = RemoteQuery(folder / name, **how)
        made.append(query)
        return query if driver is None else query.start(driver)

    yield make
    for query in made:
        if query.driver is not None and query.driver.process.poll() is None:
            query.stop()


@pytest.fixture
def make_driver(work: Path) -> Iterator[MakeDriver]:
    """Makes drivers of the test's own; all their processes have ended afterwards."""
    made: list[DriverProcess] = []
    folder = fresh(work)

    def make(**settings: str) -> DriverProcess:
        driver = DriverProcess(folder / str(len(made)), settings)
        made.append(driver)
        return driver

    yield make
    for driver in made:
        driver.close()


@pytest.fixture(scope="module")
def spark(work: Path, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session in the test's own process; where a module says `HAS_EXECUTORS`, with executors in
    theirs.
    """
    on_executors = getattr(request.module, "HAS_EXECUTORS", False)
    with local_session(fresh(work), on_executors=on_executors) as session:
        yield session


@pytest.fixture
def make_query(spark: SparkSession, work: Path) -> Iterator[MakeQuery]:
    """Makes queries on that session, which are stopped after the test."""
    folder = fresh(work)
    made: list[InProcessQuery] = []

    def make(shape: Shape, **how: Any) -> InProcessQuery:
        made.append(InProcessQuery(spark, folder / str(len(made)), shape, **how))
        return made[-1]

    yield make
    for query in made:
        query.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test says how to run it alone, and what its drivers logged last."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if not report.failed:
        return
    report.sections.append(("Again", f"python -m pytest -m '' '{item.nodeid}'"))
    work = getattr(item, "funcargs", {}).get("work")
    if work is not None:
        for log in sorted(work.glob("**/driver.log")):
            report.sections.append(
                (str(log.relative_to(work)), log.read_text(errors="replace")[-_TAIL_BYTES:])
            )
