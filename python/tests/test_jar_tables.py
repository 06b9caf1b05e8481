# SPDX-License-Identifier: Apache-2.0
"""The tables of jars in docs/operations.md are those that the tests run with."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")


def in_pom(name: str) -> dict[str, str]:
    """The versions in a file of integration-tests/stores, by group and artifact."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(ROOT / "integration-tests" / "stores" / name).getroot()
    properties = {
        p.tag.partition("}")[2]: p.text or "" for p in pom.iterfind("m:properties/*", space)
    }
    found = {}
    for dependency in pom.iterfind("m:dependencies/m:dependency", space):
        group, artifact, version = (
            dependency.findtext(f"m:{key}", "", space)
            for key in ("groupId", "artifactId", "version")
        )
        for key, value in properties.items():
            version = version.replace(f"${{{key}}}", value)
        found[f"{group}:{artifact}"] = version
    return found


def in_table(name: str) -> dict[str, str]:
    """The versions in the table above the mention of such a file, by group and artifact."""
    before, _ = PAGE.split(f"`integration-tests/stores/{name}`")
    rows = re.findall(
        r"^\| (`.+) \| (\d[\d.]*)\b", before.rpartition("| version |")[2], re.MULTILINE
    )
    found = {}
    for names, version in rows:
        group, _, first = names.split("`")[1].partition(":")
        artifacts = [first] if first else []
        # Further names follow in quotes; what a jar comes with, and what is left out, is no jar.
        listed = re.split(r", with ", names)[0].split("`")[3::2]
        found.update({f"{group}:{artifact}": version for artifact in [*artifacts, *listed]})
    return found


@pytest.mark.parametrize("name", ["s3a.xml", "kafka-connector.xml"])
def test_the_page_names_the_jars_and_versions_of_the_tests(name: str) -> None:
    assert in_table(name) == in_pom(name)
