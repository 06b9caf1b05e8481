# SPDX-License-Identifier: Apache-2.0
"""A session with the plugin in the test's own process."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_megaphone import configure
from testkit import jvm

_EXECUTORS = "local-cluster[2,1,1024]"


@contextlib.contextmanager
def local_session(
    folder: Path, *, on_executors: bool = False, more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session with the plugin, on `local[2]` or with two executor processes of one core.

    `more` are settings beside and above those that all sessions have. A session that other tests
    have left running is stopped first.
    """
    if SparkContext._active_spark_context is not None:
        SparkSession.builder.getOrCreate().stop()
    os.environ |= jvm.environment()
    settings = {
        "spark.locality.wait": "20s",
        **jvm.settings(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # An idle query tells nothing that a test would take for a batch.
        "spark.sql.streaming.noDataProgressEventInterval": "1h",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(more or {}),
    }
    builder = SparkSession.builder.master(_EXECUTORS if on_executors else "local[2]")
    builder = builder.appName("spark-megaphone tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = configure(builder).getOrCreate()
    session.sparkContext.pythonExec = sys.executable
    yield session
    session.stop()
    # What executors left there.
    shutil.rmtree(Path(os.environ["SPARK_HOME"]) / "work", ignore_errors=True)


def has_executors(spark: SparkSession) -> bool:
    """Whether a session has executors that are processes of their own."""
    return bool(spark.conf.get("spark.master") == _EXECUTORS)
