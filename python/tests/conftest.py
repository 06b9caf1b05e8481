# SPDX-License-Identifier: Apache-2.0
"""One session for all tests, and running queries whose state is moved and compared with a batch
answer.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from testkit.in_process import InProcessQuery, MakeQuery
from testkit.session import local_session
from testkit.shapes import Shape, counts


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[MakeQuery]:
    """Starts queries, which are stopped after the test."""
    started: list[InProcessQuery] = []

    def start_one(shape: Shape = counts, **settings: Any) -> InProcessQuery:
        folder = tmp_path / f"query{len(started)}"
        query = InProcessQuery(spark, folder, shape, format=1, **settings)
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
