# SPDX-License-Identifier: Apache-2.0
"""What the tests on stores share: an S3 server, HDFS, and a driver that can use both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.driver_process import DriverProcess
from testkit.folders import fresh
from testkit.hdfs import Hdfs, hdfs
from testkit.object_store import ObjectStore, object_store


@pytest.fixture(scope="session")
def in_s3(work: Path) -> Iterator[ObjectStore]:
    with object_store(fresh(work) / "s3") as server:
        yield server


@pytest.fixture(scope="session")
def in_hdfs(work: Path) -> Iterator[Hdfs]:
    with hdfs(fresh(work) / "hdfs") as server:
        yield server


@pytest.fixture(scope="session")
def driver(work: Path, in_s3: ObjectStore, in_hdfs: Hdfs) -> Iterator[DriverProcess]:
    process = DriverProcess(fresh(work) / "driver", in_s3.settings | in_hdfs.settings)
    yield process
    process.close()
