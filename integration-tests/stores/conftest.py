# SPDX-License-Identifier: Apache-2.0
"""What the tests on stores share: a driver whose checkpoints are in the module's `store`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.driver_process import DriverProcess
from testkit.folders import fresh
from testkit.hdfs import Hdfs
from testkit.object_store import ObjectStore


@pytest.fixture(scope="module")
def driver(work: Path, store: ObjectStore | Hdfs) -> Iterator[DriverProcess]:
    process = DriverProcess(fresh(work) / "driver", store.settings)
    yield process
    process.close()
