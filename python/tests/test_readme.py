# SPDX-License-Identifier: Apache-2.0
"""The README's example prints what stands there, and the tests that it names are there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_it_says() -> None:
    blocks = BLOCK.findall(README.read_text("utf-8"))
    place = next(i for i, (language, _) in enumerate(blocks) if language == "python")
    code, (_, expected) = blocks[place][1], blocks[place + 1]
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout == expected


def test_the_tests_of_the_operators_are_there() -> None:
    """Each row of the table names suites of the JVM, or a test file and how some of its tests
    begin.
    """
    text = README.read_text("utf-8")
    table = text[text.index("| operator | runs, and moves |") :].split("\n\n", 1)[0]
    scala = "\n".join(f.read_text("utf-8") for f in (ROOT / "jvm/spark/src/test").rglob("*.scala"))
    named = 0
    for row in table.splitlines()[2:]:
        file = ""
        for name in re.findall(r"`([^`]+)`", row.split("|")[3]):
            if name.endswith(".py"):
                file = (ROOT / "integration-tests" / "operators" / name).read_text("utf-8")
            else:
                sought = f"def test_{name[:-1]}" if name.endswith("…") else f"class {name} "
                assert sought in (file if name.endswith("…") else scala), f"no {name}: {row}"
            named += 1
    assert named > 15
