# SPDX-License-Identifier: Apache-2.0
"""The rules of the protocol's page have no gap in their numbers, and every number that is named
exists.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spec" / "protocol.md").read_text(encoding="utf-8")
FOLDERS = ("jvm", "python", "testkit", "integration-tests", "benchmarks", "demo", "soak", "docs")

# How the page defines what the sources refer to: an anchored line, or a row of the table of
# schedules.
DEFINITIONS = {
    "rule": re.compile(r'^- <a id="rule-(\d+)"></a>\*\*\1\.\*\*', re.MULTILINE),
    "P": re.compile(r'^- <a id="p(\d+)"></a>\*\*P\1 ', re.MULTILINE),
    "I": re.compile(r'^- <a id="i(\d+)"></a>\*\*I\1\*\*', re.MULTILINE),
    "H": re.compile(r"^\| H(\d+) \|", re.MULTILINE),
}
RULES = re.compile(r"\brules? (\d+)(?:(?:,| and| to|, and) (\d+))*")
LETTERS = re.compile(r"(?<![\w\\#.])([PIH])(\d+)\b(?![\w.]*\()")


def defined(kind: str) -> list[int]:
    return [int(number) for number in DEFINITIONS[kind].findall(PAGE)]


def named(text: str) -> Iterator[tuple[str, int]]:
    """The numbers that a text refers to, as (kind, number)."""
    for rules in RULES.finditer(text):
        yield from (("rule", int(number)) for number in re.findall(r"\d+", rules.group()))
    for letter, number in LETTERS.findall(text):
        yield letter, int(number)


def sources() -> Iterator[tuple[Path, str]]:
    files = sorted(ROOT.glob("*.md"))
    for folder in FOLDERS:
        files += sorted((ROOT / folder).rglob("*"))
    for file in files:
        is_built = {"target", "jars", "__pycache__", "results"} & set(file.parts)
        if file.suffix in {".scala", ".py", ".md"} and not is_built and file != Path(__file__):
            yield file, file.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_the_numbers_have_no_gap(kind: str) -> None:
    numbers = defined(kind)
    assert numbers
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_number_that_is_named_exists() -> None:
    known = {(kind, number) for kind in DEFINITIONS for number in defined(kind)}
    missing = [
        f"{file.relative_to(ROOT)}: {kind} {number}"
        for file, text in sources()
        for kind, number in named(text)
        if (kind, number) not in known
    ]
    assert not missing, "\n".join(missing)


def test_names_are_seen() -> None:
    text = "rules 4 to 8, rule 23; (I6) and H12, but neither MH1 nor H2O nor `x.P3`"
    assert set(named(text)) == {("rule", 4), ("rule", 8), ("rule", 23), ("I", 6), ("H", 12)}
