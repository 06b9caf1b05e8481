# SPDX-License-Identifier: Apache-2.0
"""What is asked for on the command line, and what is left behind."""

import argparse
import os
import shutil
import signal
import subprocess
import traceback
from datetime import datetime
from pathlib import Path

from soak.course import Course, Log
from soak.report import grown, report
from soak.run import Soak
from soak.samples import jcmd

_TARGET = Path(__file__).parents[1] / "target" / "soak"


def main() -> int:
    """Runs it; 0 if no row is wrong, nothing hangs, and nothing grew."""
    asked = _asked()
    folder = asked.folder or _TARGET / f"{datetime.now():%Y%m%d-%H%M%S}-seed-{asked.seed}"
    folder.mkdir(parents=True)
    course = Course(asked.minutes, asked.rounds)
    log = Log(folder / "actions.log", course)
    soak = Soak(folder / "work", asked.seed, course, log)
    failure = None
    try:
        soak.run()
    except (Exception, KeyboardInterrupt) as error:
        failure = "".join(traceback.format_exception(error))
        log(f"failed: {type(error).__name__}: {error}")
        _dump_threads(soak, folder)
    finally:
        _close(soak, log)
    text = report(soak, failure)
    (folder / "report.md").write_text(text)
    shutil.copytree(soak.sampler.folder, folder / "samples")
    is_well = failure is None and not grown(soak)
    log(f"{text.splitlines()[0][2:]}; see {folder / 'report.md'}")
    if is_well:
        shutil.rmtree(folder / "work")
    log.close()
    return 0 if is_well else 1


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long it runs")
    parser.add_argument("--rounds", type=int, help="ends it after so many rounds, if earlier")
    parser.add_argument("--seed", type=int, default=1, help="which dice")
    parser.add_argument("--folder", type=Path, help="for the report; made anew")
    return parser.parse_args()


def _dump_threads(soak: Soak, folder: Path) -> None:
    """Keeps the stacks of the driver and its executors, and of what the driver's Python does."""
    processes = soak.driver.executors()
    if soak.driver.is_alive:
        processes["driver"] = soak.driver.jvm
    for name, process in processes.items():
        try:
            os.kill(process, signal.SIGCONT)
            (folder / f"threads-{name}.txt").write_text(jcmd(process, "Thread.print", "-l"))
        except (ProcessLookupError, subprocess.TimeoutExpired):
            soak.log(f"{name} does not tell its threads")


def _close(soak: Soak, log: Log) -> None:
    try:
        soak.driver.close()
    except TimeoutError as error:
        log(f"killed at the end: {error}")
