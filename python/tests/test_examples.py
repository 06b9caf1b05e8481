# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation run, and print what stands in the page.

The Python blocks of a page are one program, and its text blocks are the program's output.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.jvm import SHORT_LIVED

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_example_of_a_page_prints_its_output(page: str) -> None:
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    code = "".join(text for language, text in blocks if language == "python")
    expected = "".join(text for language, text in blocks if language == "text")
    assert code
    assert expected
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"JDK_JAVA_OPTIONS": SHORT_LIVED},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout == expected
