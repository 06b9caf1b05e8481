# SPDX-License-Identifier: Apache-2.0
"""What the pages name exists: classes, packages, files, tests and conditions; and the worked file
of the format is the sample's bytes.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from spark_megaphone._conditions import CONDITIONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# Classes of Spark and of the JDK that the pages name.
FOREIGN = {
    "FileContext",
    "HashPartitioning",
    "KeyStateEncoderSpec",
    "MicroBatchExecution",
    "ShufflePartitionIdPassThrough",
}
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
CLASS = re.compile(r"^[A-Z][a-z]\w*[A-Z]\w*|^[A-Z][a-z]+$")
IN_A_PICTURE = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")


@cache
def sources() -> str:
    files = [*(ROOT / "jvm").glob("*/src/**/*.scala"), *(ROOT / "jvm").glob("*/src/**/*.java")]
    files += (ROOT / "python" / "spark_megaphone").glob("*.py")
    return "\n".join(file.read_text("utf-8") for file in files)


@cache
def classes() -> set[str]:
    kinds = r"\b(?:class|object|trait|interface|enum) ([A-Z]\w*)"
    return set(re.findall(kinds, sources()))


@cache
def packages() -> set[str]:
    named = set(re.findall(r"^package ([\w.]+)$", sources(), re.MULTILINE))
    return {".".join(name.split(".")[:i]) for name in named for i in range(1, 9)}


def missing(text: str) -> list[str]:
    """The names of classes, packages and files in a page that are not in the tree."""
    pictures = "\n".join(block for kind, block in CODE_BLOCK.findall(text) if kind == "mermaid")
    codes = CODE.findall(CODE_BLOCK.sub("", text))
    named = {found.group() for code in codes if (found := CLASS.match(code))}
    named |= set(IN_A_PICTURE.findall(pictures))
    absent = sorted(named - classes() - FOREIGN)
    for code in codes:
        is_package = re.fullmatch(
            r"(?:io\.megaphone|org\.apache\.spark\.sql\.megaphone)[a-z.]*", code
        )
        if is_package and code not in packages():
            absent.append(code)
        if (
            re.fullmatch(r"(?:jvm|python|benchmarks|docs|conf)/[\w./-]*", code)
            and not (ROOT / code).exists()
        ):
            absent.append(code)
    return absent


PAGES = ["architecture.md", "deployment.md", "glossary.md", "operations.md"]
PAGES += sorted(f"decisions/{page.name}" for page in (DOCS / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_every_name_in_a_page_is_a_class_or_a_folder(page: str) -> None:
    assert not missing((DOCS / page).read_text("utf-8"))


def test_a_name_that_is_not_there_is_seen() -> None:
    text = "`BinLog`, `WorkerTask.open`, `BinLogs`, `io.megaphone.logs`, `jvm/core/nothing`, `True`"
    picture = "\n```mermaid\nA->>B: QueryRuns, QueryRun, then all\n```\n"
    assert missing(text + picture) == [
        "BinLogs",
        "QueryRuns",
        "True",
        "io.megaphone.logs",
        "jvm/core/nothing",
    ]


@cache
def known_tests() -> set[str]:
    folders = [ROOT / "python" / "tests", ROOT / "integration-tests"]
    python = [file.read_text("utf-8") for folder in folders for file in folder.rglob("test_*.py")]
    scala = [file.read_text("utf-8") for file in (ROOT / "jvm").glob("*/src/test/**/*.scala")]
    return {
        *re.findall(r"^def (test_\w+)", "\n".join(python), re.MULTILINE),
        *re.findall(r"\bclass (\w+Suite)\b", "\n".join(scala)),
    }


def missing_tests(text: str) -> list[str]:
    """The tests that a page names, in full or by how they begin, and that are not in the tree."""
    named = re.findall(r"`(test_\w+…?|\w+Suite)`(?!\.py)", text)
    return [
        name
        for name in named
        if not any(
            test.startswith(name[:-1]) if name.endswith("…") else test == name
            for test in known_tests()
        )
    ]


def test_the_tests_of_the_operators_exist() -> None:
    page = (DOCS / "operators.md").read_text("utf-8")
    examples = "`XSuite`", "`test_x_…`"
    for example in examples:
        assert example in page
        page = page.replace(example, "")
    assert page.count("Suite`") > 15
    assert page.count("`test_") > 30
    assert not missing_tests(page)


def test_a_test_that_is_not_there_is_seen() -> None:
    text = "`test_sessions_…`, `BinLogSuite`, `test_session_of_nobody_…`, `BinLogsSuite`, `test_a`"
    assert missing_tests(text) == ["test_session_of_nobody_…", "BinLogsSuite", "test_a"]


def test_every_condition_of_a_query_has_a_first_response() -> None:
    reference = (DOCS / "reference" / "errors.md").read_text("utf-8")
    of_queries = reference[reference.index("## Of a query") : reference.index("## Of the Python")]
    named = set(re.findall(r"`([A-Z_]+)`", (DOCS / "operations.md").read_text("utf-8")))
    conditions = set(re.findall(r"^\| `([A-Z_]+)`", of_queries, re.MULTILINE))
    assert len(conditions) > 15
    assert not conditions - named
    assert not named - set(CONDITIONS)


def test_the_list_of_decisions_is_complete() -> None:
    folder = DOCS / "decisions"
    titles = re.findall(
        r"^\| \[(\d+)\]\((\S+)\) \| (.+) \|$",
        (folder / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert [int(number) for number, _, _ in titles] == list(range(1, len(titles) + 1))
    assert sorted(file for _, file, _ in titles) == sorted(p.name for p in folder.glob("0*.md"))
    for number, file, title in titles:
        text = (folder / file).read_text("utf-8")
        assert text.startswith(f"# {number}. {title}\n"), file
        headings = ["Context", "Decision", "Rejected", "Consequences"]
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == headings, file


def test_the_worked_file_is_the_sample() -> None:
    """The rows of the table have all bytes of the file, one behind the other."""
    page = (DOCS / "spec" / "format.md").read_text("utf-8")
    worked = page[page.index("### A worked file") :]
    sample = re.search(r"`(jvm/\S+\.delta)`", worked)
    assert sample
    expected = (ROOT / sample[1]).read_bytes()
    found = b""
    for offset, cell in re.findall(r"^\| (\d+) \| `([^`]+)` \|", worked, re.MULTILINE):
        assert int(offset) == len(found)
        for byte in cell.split():
            value, _, times = byte.partition("*")
            found += bytes.fromhex(value) * int(times or 1)
    assert found == expected
