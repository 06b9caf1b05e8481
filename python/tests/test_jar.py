# SPDX-License-Identifier: Apache-2.0
"""The plugin's jars hold our own classes and nothing that Spark or Scala brings."""

import zipfile
from pathlib import Path

import pytest

JARS = Path(__file__).resolve().parents[2] / "python" / "spark_megaphone" / "jars"
OURS = ("io/megaphone/", "org/apache/spark/sql/megaphone/", "META-INF/")


@pytest.fixture(params=["4.2", "4.3"])
def names(request: pytest.FixtureRequest) -> list[str]:
    """The names of the files (no folders) in the jar of one Spark minor."""
    found = list(JARS.glob(f"spark-megaphone_{request.param}_2.13-*.jar"))
    assert len(found) == 1, (
        f"one jar for Spark {request.param} should be in {JARS}, found {len(found)}: run `make "
        "jars`"
    )
    return [name for name in zipfile.ZipFile(found[0]).namelist() if not name.endswith("/")]


def test_the_jar_holds_only_our_own_classes(names: list[str]) -> None:
    assert not [name for name in names if not name.startswith(OURS)]
    assert [name for name in names if name.startswith("io/megaphone/") and name.endswith(".class")]


def test_the_jar_holds_no_file_twice(names: list[str]) -> None:
    assert len(names) == len(set(names))


def test_the_jar_carries_the_licence(names: list[str]) -> None:
    assert {"META-INF/LICENSE", "META-INF/NOTICE"} <= set(names)


def test_the_jar_carries_no_tests(names: list[str]) -> None:
    tests = ("Suite.class", "StrikingFaultPoints.class")
    assert not [name for name in names if name.endswith(tests)]
    services = {name for name in names if name.startswith("META-INF/services/")}
    assert services == {"META-INF/services/org.apache.spark.status.AppHistoryServerPlugin"}
