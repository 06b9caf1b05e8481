# SPDX-License-Identifier: Apache-2.0
"""The demo ends with no wrong key, and what it tells of executors that come, go and die is so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo.report import Reads

ROOT = Path(__file__).resolve().parents[2]
READS = r"(\d+) whole workers, ([\d,]+) other bins, ([\d,]+) bytes"


@pytest.mark.slow
def test_the_demo_ends_with_no_wrong_key() -> None:
    command = [sys.executable, "-m", "demo", "--rows", "40000", "--keys", "4000", "--limit", "580"]
    command += ["--burst-keys", "50000"]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    told = ended.stdout
    assert ended.returncode == 0, told + ended.stderr
    assert re.findall(r"^(\w+): +(\d+) wrong of", told, re.MULTILINE) == [
        ("totals", "0"),
        ("firsts", "0"),
        ("burst", "0"),
    ], told

    third = of_act(told, "third executor joins", r"executor (\d+) is there")
    assert third in places_after(told, "it has workers", told.index("third executor joins")), told
    leaving = of_act(told, "drain of executor", r"of executor (\d+)")
    assert leaving not in places_after(told, "it was emptied", told.index("drain of")), told

    lost = reads_of(told, r"^  totals, with a standby for each worker: .* read again: ")
    assert (lost.workers, lost.bins) == (0, 0), told
    lost = reads_of(told, r"^  firsts, without: .* read again: ")
    assert lost.workers > 0, told
    for name in ("totals", "firsts"):
        drained = reads_of(told, rf"    {name} read from the checkpoint: ")
        assert (drained.workers, drained.bins) == (0, 0), told

    left = re.findall(r"^  ([\w-]+): .* left (\d+) bins incomplete", told, re.MULTILINE)
    assert [mode for mode, _ in left] == ["on-demand", "direct"], told
    assert int(left[0][1]) > 0, told
    assert int(left[1][1]) == 0, told


def test_what_a_half_made_standby_lacks_is_counted() -> None:
    rows = [
        # A worker has two stores, and is one; another has the newest batches to read only.
        row(worker=0, is_recovery=True, bytes=100),
        row(worker=0, is_recovery=True, bytes=100),
        row(worker=1, bins=3, bytes=30),
        row(worker=2, bytes=1),
    ]
    assert Reads.of(rows) == Reads(workers=1, bins=3, bytes=231)


def row(*, worker: int, is_recovery: bool = False, bins: int = 0, bytes: int) -> dict[str, int]:
    """A row of the table of migrations."""
    return {
        "operator": 0,
        "worker": worker,
        "is_recovery": is_recovery,
        "bins_from_checkpoint": bins,
        "bytes_from_checkpoint": bytes,
    }


def of_act(told: str, act: str, pattern: str) -> str:
    """What the first line that matches says, from an act on."""
    found = re.search(pattern, told[told.index(act) :])
    assert found is not None, told
    return found[1]


def places_after(told: str, line: str, start: int) -> set[str]:
    """The executors that the first batch after a line was on, as its own line tells them."""
    batches = told[told.index(line, start) :].splitlines()
    first = next(each for each in batches if re.search(r"  batch +\d+ ", each))
    return set(re.findall(r"\d+@(\d+):", first))


def reads_of(told: str, before: str) -> Reads:
    """What was read from the checkpoint, told after some words."""
    found = re.search(before + READS, told, re.MULTILINE)
    assert found is not None, told
    return Reads(*(int(each.replace(",", "")) for each in found.groups()))
