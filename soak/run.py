# SPDX-License-Identifier: Apache-2.0
"""The rounds of a long run.

Each round writes files for all queries, does what the dice say in the middle of their batches, and
waits until all files are processed. A driver that has died is replaced, and all answers are
compared then.
"""

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from soak.acts import drawn
from soak.course import Course, Log
from soak.fleet import Fleet
from soak.plans import Plans
from soak.samples import Sampler
from testkit.driver_process import DriverProcess, Refused
from testkit.faults import Faults
from testkit.waiting import until

EXECUTORS = 3
_ARMED_ROUNDS = 5
_DEATH_S = 3.0
_FINISH_ROUNDS = 120
_SAMPLES = 120
_OPEN_DRAINS = ("draining", "drained", "overdue")
SETTINGS = {
    "spark.master": f"local-cluster[{EXECUTORS},1,1024]",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.locality.wait": "3s",
    # Files and memory are in a steady state after some minutes.
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1s",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.codegen.cache.maxEntries": "200",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.retainedDeadExecutors": "5",
    "spark.megaphone.ui.retainedQueries": "10",
    "spark.megaphone.ui.retainedBatches": "20",
    "spark.megaphone.sweep.intervalBatches": "10",
    "spark.megaphone.recovery.framesMax": "8",
    "spark.megaphone.transfer.imageDeadlineMs": "3000",
    # Some of the state is on local disk.
    "spark.megaphone.memory.budget": "2m",
}


class Soak:
    """A run under way: what the acts work on.

    Attributes:
        watched: The executor that is not killed any more, once the storm is over.
        kills: How often processes were killed, by kind.
        placements: How many drains and spreads there were, or were refused by which name.
    """

    def __init__(self, folder: Path, seed: int, course: Course, log: Log) -> None:
        self.folder, self.seed, self.course, self.log = folder, seed, course, log
        self.faults = Faults(folder / "faults")
        self.fleet = Fleet(folder / "queries")
        self.plans = Plans(log)
        self.sampler = Sampler(folder / "samples", course)
        self.kills: Counter[str] = Counter()
        self.placements: Counter[str] = Counter()
        self.watched: str | None = None
        self._armed: dict[str, int] = {}
        self._drivers = 0
        self._sampled_at = 0.0
        self.driver = self._new_driver()

    def run(self) -> None:
        """Runs all of it.

        Raises:
            AssertionError: A row is wrong.
            TimeoutError: Something did not happen in time.
            Refused: A query has failed, or something was refused that should not be.
        """
        self._guarded(lambda: self.fleet.start(self.driver))
        while self.course.share < 1:
            self.course.round += 1
            if not self.course.is_storm and self.watched is None:
                self._end_storm()
            self._guarded(self._round)
        self._guarded(self._finish)

    def arm(self, entry: str) -> None:
        """Arms a fault point; it is disarmed if it has not struck within some rounds."""
        if entry not in self._armed:
            self.log(f"armed: {entry}")
            self.faults.arm(entry)
            self._armed[entry] = self.course.round

    def draining(self) -> list[str]:
        """The executors that are to be emptied. One that was drained and has died stays so."""
        drains, live = self.driver.call("drains"), self.driver.executors()
        return [
            row["executor"]
            for row in drains
            if row["status"] in _OPEN_DRAINS and row["executor"] in live
        ]

    def _new_driver(self) -> DriverProcess:
        self._drivers += 1
        folder = self.folder / f"driver-{self._drivers}"
        return DriverProcess(folder, self.faults.settings | SETTINGS, self._meanwhile)

    def _round(self) -> None:
        dice = Random(f"{self.seed} {self.course.round}")
        for query in self.fleet:
            query.write(dice.choice((1, 1, 2)))
        acts = list(drawn(dice, is_storm=self.course.is_storm))
        moments = sorted(dice.randrange(len(self.fleet)) for _ in acts)
        for number, query in enumerate(self.fleet):
            while moments and moments[0] <= number:
                moments.pop(0)
                acts.pop(0).do(self, dice)
            if query in list(self.fleet):  # it may have been replaced
                query.settle()
        self.plans.follow(self.course.round)
        self._look_at_faults()
        if self._is_due():
            self.sampler.take(self.driver, self.watched, self.fleet)

    def _end_storm(self) -> None:
        self._disarm_all()
        self.watched = min(self.driver.executors(), key=int)
        self.course.calm_from = self.course.share
        self.log(f"the storm is over; executor {self.watched} and the driver live on")

    def _is_due(self) -> bool:
        """Whether a sample is taken in this round."""
        every_s = 60 * self.course.minutes / _SAMPLES
        if self.course.elapsed_s - self._sampled_at < every_s:
            return False
        self._sampled_at = self.course.elapsed_s
        return True

    def _finish(self) -> None:
        """Lets all plans end, compares all answers, and stops all queries."""
        self._disarm_all()
        for executor in self.draining():
            self.driver.call("undrain", executor=executor)
        for _ in range(_FINISH_ROUNDS):
            if not self.plans.is_open():
                break
            self.course.round += 1
            for query in self.fleet:
                query.write()
            for query in self.fleet:
                query.settle()
            self.plans.follow(self.course.round)
        assert not self.plans.is_open(), "plans are still open"
        for query in self.fleet:
            query.settle()
            self.fleet.check(query)
        self.log("all answers are right")
        for query in self.fleet:
            query.stop()
        self.driver.check_nothing_is_held(workers=True)
        self.log("all queries have stopped, and the executors keep nothing")

    # ---- Drivers that die.

    def _guarded(self, act: Callable[[], None]) -> None:
        """Does something; should the driver die in it, starts another with all queries."""
        while True:
            try:
                return act()
            except (EOFError, OSError, Refused) as error:
                is_asked = self.watched is None  # nobody kills drivers after the storm
                if isinstance(error, TimeoutError) or not is_asked or not self._has_died():
                    raise
                self.log(f"the driver has died: {str(error)[:100]}")
                self.kills["driver"] += 1
            act = self._recover

    def _has_died(self) -> bool:
        with contextlib.suppress(TimeoutError):
            until(lambda: not self.driver.is_alive, "the driver dies", _DEATH_S)
        return not self.driver.is_alive

    def _recover(self) -> None:
        self.driver.kill()
        shutil.rmtree(self.driver.folder / "local", ignore_errors=True)
        self._look_at_faults()
        self.driver = self._new_driver()
        self.fleet.start(self.driver)
        for query in self.fleet:
            query.settle()
        for query in self.fleet:
            self.fleet.check(query)
        self.log("a new driver runs all queries; all answers are right")

    # ---- Faults.

    def _meanwhile(self) -> None:
        """Lets a driver that a fault point has made stand still go on."""
        for entry in self._armed:
            if entry.endswith("=pause") and self.faults.struck(entry):
                self._report_strike(entry)
                self.driver.wait_until_paused()
                self.driver.resume()
                return

    def _look_at_faults(self) -> None:
        for entry, since in list(self._armed.items()):
            if self.faults.struck(entry):
                self._report_strike(entry)
            elif self.course.round - since >= _ARMED_ROUNDS:
                self.faults.disarm(entry)
                del self._armed[entry]

    def _disarm_all(self) -> None:
        self._look_at_faults()
        for entry in self._armed:
            self.faults.disarm(entry)
        self._armed.clear()

    def _report_strike(self, entry: str) -> None:
        whom = str(self.faults.struck(entry))
        del self._armed[entry]
        self.log(f"{entry} has struck {whom if whom == 'driver' else f'executor {whom}'}")
        if "=" not in entry and whom != "driver":
            self.kills["executor"] += 1
