# SPDX-License-Identifier: Apache-2.0
"""One session for all tests, and running queries whose state is moved and compared with a batch
answer.

A test that is marked with `BOTH` runs twice: on that classic session, and through a client of a
real Spark Connect server.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from testkit.back_ends import query_maker
from testkit.in_process import InProcessQuery, MakeQuery
from testkit.session import local_session
from testkit.shapes import Shape, counts

# However slow the machine is, an example that takes long is no fault.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of a client of a Spark Connect server."""
    pytest.importorskip("grpc")
    from testkit.connect import connect_server

    with connect_server(tmp_path_factory.mktemp("connect")) as server:
        yield server.session()


@pytest.fixture
def back_end(request: pytest.FixtureRequest) -> str:
    """Which of the two the test's queries run on."""
    return str(getattr(request, "param", "classic"))


@pytest.fixture
def query_of(request: pytest.FixtureRequest, back_end: str) -> Callable[..., InProcessQuery]:
    """Makes queries of the test's back end."""
    return query_maker(request, back_end)


@pytest.fixture
def start(query_of: Callable[..., InProcessQuery], tmp_path: Path) -> Iterator[MakeQuery]:
    """Starts queries, which are stopped after the test."""
    started: list[InProcessQuery] = []

    def start_one(shape: Shape = counts, **conf: Any) -> InProcessQuery:
        folder = tmp_path / f"query{len(started)}"
        query = query_of(folder, shape, format=1, **conf)
        query.batches_to_finish = 30
        started.append(query.start())
        return query

    yield start_one
    for one in started:
        one.stop()


@pytest.fixture
def counting(start: Callable[..., InProcessQuery]) -> InProcessQuery:
    """A query that has run its first batch."""
    return start().run()
