# SPDX-License-Identifier: Apache-2.0
"""The demo ends with no wrong key: it rescales two queries and kills an executor in the middle of
it.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_demo_ends_with_no_wrong_key() -> None:
    command = [sys.executable, "-m", "demo", "--rows", "40000", "--keys", "4000", "--limit", "580"]
    command += ["--burst-keys", "50000"]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.findall(r"^(\w+): +(\d+) wrong of", ended.stdout, re.MULTILINE) == [
        ("totals", "0"),
        ("firsts", "0"),
        ("burst", "0"),
    ], ended.stdout
