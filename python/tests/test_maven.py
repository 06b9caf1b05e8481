# SPDX-License-Identifier: Apache-2.0
"""The Maven artifacts, one per Spark minor: what is published with a jar, and that Spark takes it.

`make publish-local` makes them first, unless they are there.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyspark
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import spark_megaphone
from testkit import jvm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "python" / "spark_megaphone" / "jars"
VERSION = spark_megaphone.__version__
PACKAGE = re.compile(r"io\.megaphone:(spark-megaphone_(\d\.\d)_2\.13):(\S+)")
PUBLISH_SECONDS, SESSION_SECONDS = 900, 180


@pytest.fixture(scope="module")
def lines() -> dict[str, str]:
    """The options for Spark that `make publish-local` prints, by the minor version of Spark."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--silent", "-C", str(ROOT), "publish-local"]
    made = subprocess.run(
        command, env=plain, capture_output=True, text=True, check=False, timeout=PUBLISH_SECONDS
    )
    assert made.returncode == 0, made.stdout + made.stderr
    found = {}
    for line in made.stdout.splitlines():
        if package := PACKAGE.search(line):
            assert package[3] == VERSION
            found[package[2]] = line.strip()
    return found


@pytest.fixture(params=["4.2", "4.3"])
def artifact(request: pytest.FixtureRequest, lines: dict[str, str]) -> "Artifact":
    return Artifact(request.param, lines[request.param])


class Artifact:
    """The files that are published for one Spark minor."""

    def __init__(self, minor: str, line: str) -> None:
        self.minor = minor
        self.name = f"spark-megaphone_{minor}_2.13"
        options = shlex.split(line)
        repository = options[options.index("--repositories") + 1]
        folder = Path(repository.removeprefix("file://"))
        self._folder = folder / "io" / "megaphone" / self.name / VERSION

    def file(self, ending: str) -> Path:
        return self._folder / f"{self.name}-{VERSION}{ending}"

    def names(self, ending: str) -> set[str]:
        return set(zipfile.ZipFile(self.file(ending)).namelist())


def test_there_is_one_artifact_for_each_spark_minor(lines: dict[str, str]) -> None:
    assert set(lines) == {"4.2", "4.3"}


def test_the_pom_has_what_a_repository_asks_for_and_no_dependency(artifact: Artifact) -> None:
    pom = ElementTree.parse(artifact.file(".pom")).getroot()
    space = {"m": "http://maven.apache.org/POM/4.0.0"}

    def text(path: str) -> str:
        return pom.findtext(path, namespaces=space) or ""

    assert text("m:groupId") == "io.megaphone"
    assert text("m:artifactId") == artifact.name
    assert text("m:version") == VERSION
    assert text("m:name") == f"spark-megaphone for Spark {artifact.minor}"
    assert artifact.minor in text("m:description")
    assert text("m:licenses/m:license/m:name") == "Apache-2.0"
    assert text("m:scm/m:connection").startswith("scm:git:")
    for path in ("url", "scm/m:url", "developers/m:developer/m:name"):
        assert text(f"m:{path}"), path
    assert not pom.findall(".//m:dependency", space)
    assert not pom.findall(".//m:repository", space)


def test_the_published_jar_is_the_one_that_the_package_has(artifact: Artifact) -> None:
    of_package = JARS / f"{artifact.name}-{VERSION}.jar"
    assert artifact.file(".jar").read_bytes() == of_package.read_bytes()


def test_sources_and_documentation_are_of_both_the_core_and_the_plugin(artifact: Artifact) -> None:
    both = {"io/megaphone/plan/Plan", "io/megaphone/MegaphonePlugin"}
    sources = artifact.names("-sources.jar")
    assert {f"{name}.scala" for name in both} | {"META-INF/LICENSE", "META-INF/NOTICE"} <= sources
    assert not [name for name in sources if name.endswith(("Suite.scala", ".class"))]
    assert {f"{name}.html" for name in both} | {"index.html"} <= artifact.names("-javadoc.jar")


def test_the_list_of_components_is_valid_and_says_that_the_jar_bundles_nothing(
    artifact: Artifact,
) -> None:
    text = artifact.file("-cyclonedx.json").read_text("utf-8")
    listed: dict[str, Any] = json.loads(text)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert problem is None, problem
    itself = f"pkg:maven/io.megaphone/{artifact.name}@{VERSION}"
    assert listed["metadata"]["component"]["purl"] == itself
    assert listed.get("components", []) == []
    assert listed["dependencies"] == [{"ref": itself, "dependsOn": []}]
    # The same is true of the jar.
    classes = [name for name in artifact.names(".jar") if name.endswith(".class")]
    ours = ("io/megaphone/", "org/apache/spark/sql/megaphone/")
    assert not [name for name in classes if not name.startswith(ours)]


PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

folder = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
words = spark.readStream.text(folder + "/words")
writer = words.groupBy("value").count().writeStream.outputMode("complete").format("memory")
query = writer.queryName("counts").option("checkpointLocation", folder + "/checkpoint").start()
query.processAllAvailable()
bins = spark.sql("SELECT sum(bins) FROM megaphone.system.workers").collect()[0][0]
counts = dict(spark.sql("SELECT * FROM counts").collect())
print(json.dumps({"bins": bins, "counts": counts, "jars": spark.conf.get("spark.jars")}))
spark.stop()
"""


def test_a_query_runs_with_the_packages_that_make_prints(
    lines: dict[str, str], tmp_path: Path
) -> None:
    """With a cache of its own, and no repository but ours: nothing comes from elsewhere."""
    minor = ".".join(pyspark.__version__.split(".")[:2])
    words = tmp_path / "words"
    words.mkdir()
    (words / "a.txt").write_text("a\nb\na\n", "utf-8")
    (tmp_path / "no-repository.xml").write_text("<ivysettings/>", "utf-8")
    settings = {
        **jvm.settings(),
        "spark.plugins": "io.megaphone.MegaphonePlugin",
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.jars.ivySettings": str(tmp_path / "no-repository.xml"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = f"--master local[2] {lines[minor]} {shlex.join(options)} pyspark-shell"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, **jvm.environment(), "PYSPARK_SUBMIT_ARGS": submit},
        capture_output=True,
        text=True,
        check=False,
        timeout=SESSION_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads(ran.stdout.splitlines()[-1])
    assert result["counts"] == {"a": 2, "b": 1}
    assert result["bins"] == 1024
    jar = f"io.megaphone_spark-megaphone_{minor}_2.13-{VERSION}.jar"
    assert result["jars"] == f"file://{tmp_path}/ivy/jars/{jar}"
    assert [file.name for file in (tmp_path / "ivy" / "jars").iterdir()] == [jar]
