# SPDX-License-Identifier: Apache-2.0
"""What Prometheus reads of an application, by its own parser, and what a board asks it for."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families as parsed
from pyspark.sql import SparkSession

_SECONDS = 30
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def get(address: str) -> str:
    """The text at an address."""
    with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
        text: str = answer.read().decode("utf-8")
        return text


def samples_at(address: str) -> Samples:
    """The samples of a page, by name and labels; none is there twice."""
    families = list(parsed(get(address)))
    samples = [sample for family in families for sample in family.samples]
    found = {(s.name, frozenset(s.labels.items())): s.value for s in samples}
    assert len(found) == len(samples)
    return found


def scrape(spark: SparkSession, page: str) -> Samples:
    """The samples of a page of the live UI."""
    return samples_at(f"{spark.sparkContext.uiWebUrl}{page}")


def labelled(spark: SparkSession) -> Samples:
    """The plugin's page with labels."""
    return scrape(spark, "/metrics/megaphone/")


def counters_at(address: str) -> dict[str, int]:
    """The plugin's counters, such as `bins_moved`, of the live UI at an address."""
    samples = samples_at(f"{address}/metrics/megaphone/")
    totals = {name: int(n) for (name, _), n in samples.items() if name.endswith("_total")}
    return {
        name.removeprefix("spark_megaphone_").removesuffix("_total"): n
        for name, n in totals.items()
    }


def of_family(samples: Samples, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of each sample of a name."""
    return [(dict(labels), value) for (found, labels), value in samples.items() if found == name]


def expressions(board: Path) -> Iterator[str]:
    """What the panels of a board ask for."""
    content: dict[str, Any] = json.loads(board.read_text("utf-8"))
    for panel in content["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def variables(board: Path) -> Iterator[str]:
    """What the variables of a board ask for."""
    content: dict[str, Any] = json.loads(board.read_text("utf-8"))
    for variable in content["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"]


def names_in(expression: str) -> set[str]:
    """The names of metrics in an expression: what is no function, keyword, label or text."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r",\s*\w+\s*\)", ")", bare)  # the label in label_values(…, label)
    words = re.findall(r"[A-Za-z_:][\w:]*(?!\w*\s*\()", bare)
    return set(words) - {"or", "and", "unless", "bool", "by", "on"}
