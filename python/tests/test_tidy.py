# SPDX-License-Identifier: Apache-2.0
"""The repository reads itself: licence headers, line width, no registry's host, no path of one
machine.

A rule is a function from a file's path and text to what is wrong with it. Each is tried on a sample
that breaks it, so that a rule that sees nothing is noticed.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]

Rule = Callable[[PurePosixPath, str], Iterator[str]]

COLUMNS_MAX = 100
COMMENT_BY_SUFFIX = {".scala": "//", ".java": "//", ".sbt": "//", ".py": "#", ".sh": "#"}
# One word, an import of one name, a row of a table.
UNBREAKABLE_BY_SUFFIX = {".scala": r"import \S+|\S+", ".md": r"\|.*|\S+"}
# What a Python line says to its checkers does not count: ruff does not count it either.
PRAGMA = re.compile(r"  # (noqa|type: ignore).*$")
DATA_SUFFIXES = {".csv", ".html", ".json", ".jsonl", ".svg", ".txt"}

REGISTRY = re.compile(
    r"\b(repo1?\.maven|maven\.org|repo\.maven|maven-central\.|pypi\.org|pythonhosted\.org"
    r"|sonatype\.(org|com)|scala-sbt\.org/|jcenter\.|maven\.google\.com|repository\.apache\.org"
    r"|repo\.typesafe\.com|packages\.confluent\.io|registry\.npmjs|artifactory\.|proxy\.golang)",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(
    r"(?:(?<![\w./}*-])|file://)/(home|root|Users|work|workspace|builds|private/var|var/folders)/\w"
)


def licence_header(path: PurePosixPath, text: str) -> Iterator[str]:
    comment = COMMENT_BY_SUFFIX.get(path.suffix) or ("#" if text.startswith("#!") else None)
    if comment is None or not text:
        return
    lines = text.splitlines()
    first = lines[1:2] if lines[0].startswith("#!") else lines[:1]
    header = f"{comment} SPDX-License-Identifier: Apache-2.0"
    if first != [header]:
        yield f"{path}: the first line (after a #! line) should be: {header}"


def line_width(path: PurePosixPath, text: str) -> Iterator[str]:
    """Lines that are too wide, except for those that cannot be broken."""
    if path.suffix in DATA_SUFFIXES:
        return
    unbreakable = UNBREAKABLE_BY_SUFFIX.get(path.suffix, r"\S+")
    for number, line in enumerate(text.splitlines(), 1):
        kept = PRAGMA.sub("", line) if path.suffix == ".py" else line
        if len(kept) > COLUMNS_MAX and not re.fullmatch(unbreakable, line.strip()):
            yield f"{path}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"


def registry_host(path: PurePosixPath, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := REGISTRY.search(line):
            yield f"{path}:{number}: names a registry's host ({found.group()}); say the coordinates"


def machine_path(path: PurePosixPath, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := MACHINE_PATH.search(line):
            yield f"{path}:{number}: a path of one machine ({found.group()}…)"


RULES: list[Rule] = [licence_header, line_width, registry_host, machine_path]


def text_files() -> Iterator[tuple[PurePosixPath, str]]:
    """Every text file that git tracks, and those that it would if they were added."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in sorted(set(listed.split("\0")) - {""}):
        file = ROOT / name
        if file.is_symlink() or not file.is_file():  # removed, and not yet committed as removed
            continue
        try:
            text = file.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            yield PurePosixPath(name), text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    files = list(text_files())
    assert {"build.sbt", "pyproject.toml", "python/tests/test_tidy.py"} <= {
        str(path) for path, _ in files
    }
    problems = [problem for path, text in files for problem in rule(path, text)]
    assert not problems, "\n".join(problems)


HEADER = "// SPDX-License-Identifier: Apache-2.0\n"
WIDE = "word " * (COLUMNS_MAX // 5) + "x"


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (licence_header, "A.scala", "package a\n"),
        (licence_header, "a.py", HEADER),
        (licence_header, "a.sh", "#!/bin/sh\necho\n# SPDX-License-Identifier: Apache-2.0\n"),
        (licence_header, "run", "#!/usr/bin/env bash\necho\n"),
        (line_width, "A.scala", HEADER + WIDE),
        (line_width, "A.scala", HEADER + "import " + WIDE),
        (line_width, "a.md", WIDE),
        (line_width, "a.md", "import " + WIDE),
        (line_width, "a.ipynb", f'    "{WIDE}",'),
        (line_width, "a.py", WIDE + "  # noqa: E501"),
        (registry_host, "a.sbt", "https://repo1.mav" + "en.org/maven2"),
        (registry_host, "a.md", "see py" + "pi.org/project/pyspark"),
        (machine_path, "a.py", 'open("/ro' + 'ot/x")'),
        (machine_path, "a.conf", "file:///ho" + "me/me/x"),
        (machine_path, "a.md", "cd /wo" + "rk/main"),
    ],
)
def test_a_rule_sees_what_breaks_it(rule: Rule, name: str, text: str) -> None:
    assert len(list(rule(PurePosixPath(name), text))) == 1


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (licence_header, "A.scala", HEADER + "package a\n"),
        (licence_header, "a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"),
        (licence_header, "a.md", "# Title\n"),
        (licence_header, "__init__.py", ""),
        (line_width, "a.md", f"| {WIDE} |"),
        (line_width, "a.md", WIDE.replace(" ", "_")),
        (line_width, "A.scala", HEADER + "import " + WIDE.replace(" ", ".")),
        (line_width, "a.py", "x = 1  # type: ignore[misc] " + WIDE),
        (line_width, "a.csv", WIDE),
        (registry_host, "a.md", "org.scala-sbt:sbt-launch, from Maven Central"),
        (
            machine_path,
            "a.md",
            "https://example.org/home/page and $HOME/work/x and /opt/spark/work-dir",
        ),
    ],
)
def test_a_rule_leaves_alone_what_is_right(rule: Rule, name: str, text: str) -> None:
    assert list(rule(PurePosixPath(name), text)) == []
