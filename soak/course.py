# SPDX-License-Identifier: Apache-2.0
"""How far a run is, and its log: a line for each thing that was done, with its time and round."""

import time
from dataclasses import dataclass, field
from pathlib import Path

STORM_SHARE = 1 / 3
# After the storm: meanwhile a driver and an executor that are new fill what they keep on purpose.
SETTLING_SHARE = 1 / 12


@dataclass
class Course:
    """The length of a run: it is over after so many minutes, or rounds if they are fewer.

    The first third is the storm, in which the driver and every executor may be killed. After that
    the driver and one executor live on, so that it is seen whether anything in them grows.

    Attributes:
        calm_from: How much of the run was over when the storm ended; None before.
    """

    minutes: float
    rounds: int | None = None
    round: int = 0
    calm_from: float | None = None
    _began: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    @property
    def share(self) -> float:
        """How much of it is over, from 0 to 1."""
        by_time = self.elapsed_s / (60 * self.minutes)
        by_rounds = 0.0 if self.rounds is None else self.round / self.rounds
        return max(by_time, by_rounds)

    @property
    def settled_share(self) -> float | None:
        """How much is over of the time in which nothing may grow; None before it begins."""
        if self.calm_from is None:
            return None
        begin = self.calm_from + SETTLING_SHARE
        share = (self.share - begin) / (1 - begin)
        return share if share >= 0 else None

    @property
    def is_storm(self) -> bool:
        """Whether drivers may be killed."""
        return self.share < STORM_SHARE


class Log:
    """The lines, in a file and on the terminal. A run's dice follow from its seed and the round."""

    def __init__(self, file: Path, course: Course) -> None:
        self._file, self._course = file.open("w", buffering=1), course

    def __call__(self, text: str) -> None:
        """Adds a line."""
        course = self._course
        line = f"{course.elapsed_s:8.1f} s  round {course.round:4}  {text}"
        print(line, file=self._file)
        print(line, flush=True)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()
