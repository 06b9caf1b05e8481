# SPDX-License-Identifier: Apache-2.0
"""The README's example runs as it stands there, and prints what stands there."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_prints_what_it_says() -> None:
    blocks = BLOCK.findall(README.read_text("utf-8"))
    place = next(i for i, (language, _) in enumerate(blocks) if language == "python")
    code, (_, expected) = blocks[place][1], blocks[place + 1]
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout == expected
