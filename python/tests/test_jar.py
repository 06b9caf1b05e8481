# SPDX-License-Identifier: Apache-2.0
"""The plugin's jars hold our own classes and nothing that Spark or Scala brings, and whoever builds
one from the same sources with the same JDK gets the same bytes.
"""

import os
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "python" / "spark_megaphone" / "jars"
OURS = ("io/megaphone/", "org/apache/spark/sql/megaphone/", "META-INF/")
# The beginning of 2010, which sbt gives to all entries: as a date, and in seconds since 1970, UTC.
DATE, SECONDS = (2010, 1, 1, 0, 0, 0), 1_262_304_000
BUILD_SECONDS = 900


@pytest.fixture(params=["4.2", "4.3"])
def jar(request: pytest.FixtureRequest) -> zipfile.ZipFile:
    """The jar of one Spark minor."""
    found = list(JARS.glob(f"spark-megaphone_{request.param}_2.13-*.jar"))
    assert len(found) == 1, (
        f"one jar for Spark {request.param} should be in {JARS}, found {len(found)}: run `make "
        "jars`"
    )
    return zipfile.ZipFile(found[0])


@pytest.fixture
def names(jar: zipfile.ZipFile) -> list[str]:
    """The names of the files (no folders) in the jar."""
    return [name for name in jar.namelist() if not name.endswith("/")]


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


def test_the_jar_is_no_program(jar: zipfile.ZipFile) -> None:
    assert b"Main-Class" not in jar.read("META-INF/MANIFEST.MF")


def test_the_jar_tells_neither_when_nor_in_which_order_nor_where_it_was_built(
    jar: zipfile.ZipFile,
) -> None:
    entries = jar.infolist()
    assert {entry.date_time for entry in entries} == {DATE}
    assert {seconds for entry in entries for seconds in times(entry.extra)} == {SECONDS}
    first, *others = [entry.filename for entry in entries]
    assert first == "META-INF/MANIFEST.MF"
    assert others == sorted(others)
    here = str(ROOT).encode()
    assert not [name for name in jar.namelist() if here in jar.read(name)]


def times(extra: bytes) -> list[int]:
    """The times in an entry's extra fields, in seconds since 1970; the zone has no part in them."""
    found: list[int] = []
    while extra:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == 0x5455:
            found += struct.unpack_from(f"<{size // 4}i", extra, 5)
        extra = extra[4 + size :]
    return found


def build(folder: Path, zone: str, mask: int) -> dict[str, bytes]:
    """The jars that a copy of the sources in a folder of its own is built into, by their names."""
    parts = ["build.sbt", "sbt", "project", "pyproject.toml", "LICENSE", "NOTICE"]
    parts += ["jvm/core/src/main", "jvm/spark/src/main"]
    for part in parts:
        to = folder / part
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, to, ignore=shutil.ignore_patterns("target", "project"))
        else:
            shutil.copy2(ROOT / part, to)
    # What would be fetched.
    shutil.copytree(ROOT / ".sbt-launch", folder / ".sbt-launch")
    spark = Path(pyspark.__file__).parent / "jars"
    built = subprocess.run(
        ["./sbt", "spark42/assembly", "spark43/assembly"],
        cwd=folder,
        env={**os.environ, "TZ": zone, "MEGAPHONE_SPARK_4_3_JARS": str(spark)},
        umask=mask,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    jars = folder.glob("jvm/spark/target/spark-4.*/spark-megaphone_4.*.jar")
    return {file.name: file.read_bytes() for file in jars}


@pytest.mark.slow
@pytest.mark.skipif(
    not pyspark.__version__.startswith("4.3."), reason="builds with the jars of Spark 4.3"
)
def test_a_jar_is_the_same_byte_for_byte_when_it_is_built_elsewhere(tmp_path: Path) -> None:
    once = build(tmp_path / "one", "UTC", 0o022)
    again = build(tmp_path / "a deeper one" / "two", "Asia/Tokyo", 0o077)
    assert len(once) == 2
    assert once.keys() == again.keys()
    assert [name for name in once if once[name] != again[name]] == []
