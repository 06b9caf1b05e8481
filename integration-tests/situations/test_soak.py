# SPDX-License-Identifier: Apache-2.0
"""The long run, in short: it ends with no wrong row. What grows, it tells."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from soak.course import Course
from soak.flat import SAMPLES_MIN, Measure, Series

ROOT = Path(__file__).resolve().parents[2]
SEED, ROUNDS = 366, 12


@pytest.mark.slow
def test_a_short_run_ends_with_no_wrong_row(work: Path) -> None:
    folder = work / "soak"
    command = [sys.executable, "-m", "soak", "--seed", str(SEED), "--folder", str(folder)]
    ended = subprocess.run(
        [*command, "--rounds", str(ROUNDS), "--minutes", "30"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
    report = (folder / "report.md").read_text()
    numbers = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|$", report, re.MULTILINE))
    assert numbers["wrong rows"] == "0", report
    kinds = ("plans: done", "drains and spreads: done", "kills: driver", "kills: executor")
    for what in (*kinds, "queries started again"):
        assert int(numbers.get(what, 0)) > 0, f"no {what}:\n{report}"
    assert "| driver | live heap, MiB |" in report, "no samples"


@pytest.mark.parametrize(("step", "grew"), [(0.0, False), (0.3, False), (1.0, True), (-1.0, False)])
def test_a_series_is_flat_unless_it_goes_on_growing(step: float, grew: bool) -> None:
    series = Series(Measure("things", tolerance=0.1, slack=2.0))
    samples = 2 * SAMPLES_MIN
    for number in range(samples):
        noise = 1.0 if number % 2 else -1.0
        series.add(number / samples, 100.0 + number * step * 5 + noise)
    assert series.is_judged
    assert series.grew == grew


def test_what_is_measured_counts_once_a_calm_run_has_settled() -> None:
    course = Course(minutes=1000, rounds=12, round=4)
    assert course.settled_share is None, "there is a storm"
    course.calm_from = course.share
    assert course.settled_share is None, "what is new still fills"
    shares: list[float | None] = []
    for course.round in (5, 8, 12):
        shares.append(course.settled_share)
    assert shares == pytest.approx([0, 3 / 7, 1], abs=1e-3)


def test_a_series_of_few_samples_is_not_judged() -> None:
    series = Series(Measure("things", tolerance=0.0, slack=0.0))
    for number in range(SAMPLES_MIN):
        series.add(number / SAMPLES_MIN, float(number))
    assert not series.is_judged
    assert not series.grew
