# SPDX-License-Identifier: Apache-2.0
"""project/Versions.scala has every version; the Makefile and pyproject.toml repeat two of them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]


def in_build(name: str) -> str:
    """The version that project/Versions.scala has under a name."""
    source = (ROOT / "project" / "Versions.scala").read_text("utf-8")
    (version,) = re.findall(rf'val {name} = "([^"]+)"', source)
    return str(version)


def pyspark_of(extra: str) -> str:
    """What an extra of the package asks for of pyspark: `==4.3.0`, for example."""
    wanted = [re.match(r"pyspark(?:\[\w+\])?(.+)", text) for text in EXTRAS[extra]]
    (version,) = [match[1] for match in wanted if match]
    return version


def test_the_makefile_installs_the_spark_4_2_of_the_build() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.findall(r"^SPARK_4_2 := (.+)$", makefile, re.MULTILINE) == [in_build("Spark42")]


def test_the_package_is_developed_on_the_spark_4_3_of_the_build() -> None:
    assert pyspark_of("dev") == f"=={in_build('Spark43')}"


def test_the_samples_of_configuration_name_the_versions_of_the_build() -> None:
    minor = ".".join(in_build("Spark43").split(".")[:2])
    files = [*(ROOT / "conf").glob("*.conf"), ROOT / "conf" / "compose.yaml"]
    text = "".join(file.read_text("utf-8") for file in files)
    jars = re.findall(r"spark-megaphone_\S+\.jar", text)
    assert len(jars) > len(files) - 1
    assert set(jars) == {f"spark-megaphone_{minor}_2.13-{PYPROJECT['project']['version']}.jar"}
    images = re.findall(r"(?:container\.image\s+\S+|apache/spark):([\d.]+)", text)
    assert len(images) > 1
    assert set(images) == {in_build("Spark43")}


def test_the_package_accepts_the_minor_versions_that_have_a_jar_and_no_others() -> None:
    oldest, newest = (in_build(name).split(".") for name in ("Spark42", "Spark43"))
    after = f"{newest[0]}.{int(newest[1]) + 1}"
    accepted = f">={'.'.join(oldest[:2])},<{after}"
    assert (pyspark_of("spark"), pyspark_of("connect")) == (accepted, accepted)
