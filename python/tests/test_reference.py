# SPDX-License-Identifier: Apache-2.0
"""The generated modules and pages are what the JVM half generates today."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
AGAIN = 'run ./sbt "spark43/runMain io.megaphone.spark.conf.Reference"'

FILES = [
    "python/spark_megaphone/conf.py",
    "python/spark_megaphone/_tables.py",
    "python/spark_megaphone/_conditions.py",
    "docs/reference/configuration.md",
    "docs/reference/metrics.md",
    "docs/reference/tables.md",
    "docs/reference/errors.md",
]


@pytest.fixture
def reference(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.io.megaphone.spark.conf.Reference


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_up_to_date(reference: Any, file: str) -> None:
    assert (ROOT / file).read_text("utf-8") == reference.textOf(file), AGAIN


def test_every_generated_file_is_compared(reference: Any) -> None:
    assert reference.paths().split("\n") == FILES
