# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: drivers in other processes, a session in this one, fault
points.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from drivers import DriverProcess, MakeDriver
from faults import Faults
from queries import MakeQuery, Query
from streams import MakeStream, Shape, Stream, fresh, local_session

_TAIL_BYTES = 6000


@pytest.fixture(scope="session")
def work() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="megaphone-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def faults(work: Path) -> Faults:
    """The fault points of the shared driver: all disarmed."""
    return Faults(work / "faults")


@pytest.fixture(scope="session")
def shared(work: Path, faults: Faults) -> Iterator[DriverProcess]:
    """A driver with two executors of one core each; each test has queries of its own on it."""
    driver = DriverProcess(work / "shared", faults.settings)
    yield driver
    driver.close()


@pytest.fixture
def make_query(work: Path, request: pytest.FixtureRequest) -> Iterator[MakeQuery]:
    """Makes queries; those that a failed test has left running are stopped."""
    made: list[Query] = []
    folder = Path(tempfile.mkdtemp(dir=work, prefix="query-"))

    def make(driver: DriverProcess | None = None, name: str = "q", **how: object) -> Query:
        query = Query(folder / name, **how)  # type: ignore[arg-type]
        made.append(query)
        return query if driver is None else query.start(driver)

    yield make
    for query in made:
        if query.driver is not None and query.driver.process.poll() is None:
            query.call("stop")


@pytest.fixture
def make_driver(work: Path) -> Iterator[MakeDriver]:
    """Makes drivers of the test's own; all their processes have ended afterwards."""
    made: list[DriverProcess] = []
    folder = Path(tempfile.mkdtemp(dir=work, prefix="drivers-"))

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
    has_executors = getattr(request.module, "HAS_EXECUTORS", False)
    with local_session(fresh(work), has_executors=has_executors) as session:
        yield session


@pytest.fixture
def make_stream(spark: SparkSession, work: Path) -> Iterator[MakeStream]:
    """Makes queries on that session, which are stopped after the test."""
    folder = fresh(work)
    made: list[Stream] = []

    def make(shape: Shape, **how: Any) -> Stream:
        made.append(Stream(spark, folder / str(len(made)), shape, **how))
        return made[-1]

    yield make
    for stream in made:
        stream.stop()


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
