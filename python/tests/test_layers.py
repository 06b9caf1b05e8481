# SPDX-License-Identifier: Apache-2.0
"""The layers of the Scala sources: an import points inward, and every package says what it is.

`LAYERS` lists all packages from the innermost to the outermost. A package imports only those that
stand before it, so there is no cycle. docs/architecture.md shows the same list as a picture.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CORE = "io.megaphone"
SPARK = "io.megaphone.spark"
PRIVATE = "org.apache.spark.sql.megaphone"

LAYERS = [
    f"{CORE}.errors",
    f"{CORE}.log.record",
    f"{CORE}.log.memory",
    f"{CORE}.log.index",
    f"{CORE}.log",
    f"{CORE}.format",
    f"{CORE}.plan",
    f"{CORE}.pace",
    f"{CORE}.state",
    f"{CORE}.checkpoint.planlog",
    f"{CORE}.checkpoint",
    f"{CORE}.transfer",
    f"{CORE}.protocol",
    f"{CORE}.placement",
    f"{CORE}.runtime",
    f"{CORE}.view",
    PRIVATE,
    f"{SPARK}.metrics",
    f"{SPARK}.conf",
    f"{SPARK}.checkpoint",
    f"{SPARK}.wire",
    f"{SPARK}.partitioning",
    f"{SPARK}.executor",
    f"{SPARK}.driver",
    f"{SPARK}.rule",
    f"{SPARK}.provider.rows",
    f"{SPARK}.provider.families",
    f"{SPARK}.provider",
    f"{SPARK}.faces.json",
    f"{SPARK}.faces.events",
    f"{SPARK}.faces.history",
    f"{SPARK}.faces.ui",
    f"{SPARK}.faces.api",
    f"{SPARK}.faces.sql",
    f"{SPARK}.faces.metrics",
    f"{PRIVATE}.ui",
    CORE,
]

# Packages that only hold others.
EMPTY = {SPARK, f"{SPARK}.faces"}

# Who asks for the time of day: to show it, or to hand it on to Spark. Nothing is decided by it, for
# a machine's clock may jump; durations are measured by `nanoTime`.
TELL_THE_TIME = (
    f"{PRIVATE}.SnapshotReports",
    f"{SPARK}.faces.events.Journal",
    f"{SPARK}.faces.history.EventListener",
)
TIME_OF_DAY = re.compile(
    r"\bcurrentTimeMillis\b|\b(?:Instant|\w+Time|\w+Date)\.now\b|\bClock\.system"
)

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
IMPORT = re.compile(r"^\s*import ([\w.]+)\.(?:\{|\w+$|_$)", re.MULTILINE)
QUALIFIED = re.compile(r"\b(io\.megaphone(?:\.[a-z]\w*)+)\.[A-Z]")


def package_of(source: str) -> str:
    """The package that a source file is in; the package itself for a package object."""
    name = re.search(r"^package ([\w.]+)", source, re.MULTILINE)
    assert name is not None
    own = re.search(r"^package object (\w+)", source, re.MULTILINE)
    return f"{name[1]}.{own[1]}" if own else name[1]


def imports_of(source: str) -> set[str]:
    """The packages that a source file imports or names in full, classes cut off."""
    code = COMMENT.sub("", source)
    named = IMPORT.findall(code) + QUALIFIED.findall(code)
    packages = set()
    for name in named:
        parts = name.split(".")
        while parts and parts[-1][:1].isupper():
            parts.pop()
        packages.add(".".join(parts))
    return packages


def ours(package: str) -> bool:
    return package == CORE or package.startswith((f"{CORE}.", PRIVATE))


def outward(sources: Mapping[str, str]) -> Iterator[str]:
    """Imports that do not point inward."""
    rank = {package: i for i, package in enumerate(LAYERS)}
    for file, source in sources.items():
        package = package_of(source)
        if package in EMPTY:
            continue
        if package not in rank:
            yield f"{file}: the package {package} is in no layer"
            continue
        for imported in sorted(filter(ours, imports_of(source) - {package})):
            if rank.get(imported, len(rank)) >= rank[package]:
                yield f"{file}: {package} imports {imported}, which lies further out"


def spark_in_core(sources: Mapping[str, str]) -> Iterator[str]:
    """Files of the core that import Spark, Hadoop or another of its libraries."""
    for file, source in sources.items():
        foreign = re.compile(r"^(org|com|net)\.")
        if "/core/" in file and (found := [i for i in imports_of(source) if foreign.match(i)]):
            yield f"{file}: the core imports {', '.join(sorted(found))}"


def unopened(sources: Mapping[str, str]) -> Iterator[str]:
    """Packages whose package.scala does not say what they are."""
    opened = {
        package_of(source)
        for file, source in sources.items()
        if file.endswith("/package.scala") and re.search(r"/\*\*.*?\.\s", source, re.DOTALL)
    }
    packages = {package_of(source) for source in sources.values()} - {CORE}
    for package in sorted((packages | EMPTY) - opened):
        yield f"{package} has no package.scala that opens with what it is"


def time_of_day(sources: Mapping[str, str]) -> Iterator[str]:
    """Files that ask for the time of day and are not known to."""
    for file, source in sources.items():
        name = f"{package_of(source)}.{Path(file).stem}"
        if TIME_OF_DAY.search(COMMENT.sub("", source)) and name not in TELL_THE_TIME:
            yield f"{file} asks for the time of day, which may jump"


def main_sources() -> dict[str, str]:
    files = sorted((ROOT / "jvm").glob("*/src/main/scala*/**/*.scala"))
    return {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in files}


Rule = Callable[[Mapping[str, str]], Iterator[str]]
RULES: list[Rule] = [outward, spark_in_core, time_of_day, unopened]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_sources_keep_the_layers(rule: Rule) -> None:
    sources = main_sources()
    assert len(sources) > 100
    problems = list(rule(sources))
    assert not problems, "\n".join(problems)


def test_the_picture_of_the_layers_is_the_list() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:io\.megaphone|org\.apache\.spark\.sql\.megaphone)[\w.]*)`", page)
    shown = [name for i, name in enumerate(named) if name in LAYERS and name not in named[:i]]
    assert shown == LAYERS, (
        "the table of layers in docs/architecture.md has another order or lacks some"
    )


@pytest.mark.parametrize(
    ("rule", "file", "source"),
    [
        (outward, "a.scala", f"package {CORE}.log\n\nimport {CORE}.state.Holding\n"),
        (outward, "a.scala", f"package {CORE}.plan\n\nval a = {CORE}.runtime.QueryRun\n"),
        (outward, "a.scala", f"package {CORE}.surprise\n"),
        (
            spark_in_core,
            "jvm/core/a.scala",
            f"package {CORE}.log\n\nimport org.apache.spark.SparkEnv\n",
        ),
        (spark_in_core, "jvm/core/a.scala", f"package {CORE}.log\n\nimport com.google.common.A\n"),
        (time_of_day, "a.scala", f"package {CORE}.pace\n\nval now = System.currentTimeMillis\n"),
        (time_of_day, "Journal.scala", f"package {CORE}.pace\n\nval now = Instant.now()\n"),
    ],
)
def test_a_rule_sees_what_breaks_it(rule: Rule, file: str, source: str) -> None:
    assert len(list(rule({file: source}))) == 1


def test_a_package_without_its_sentences_is_seen() -> None:
    sources = main_sources()
    file = next(name for name in sources if name.endswith("io/megaphone/plan/package.scala"))
    del sources[file]
    assert list(unopened(sources)) == [
        f"{CORE}.plan has no package.scala that opens with what it is"
    ]
