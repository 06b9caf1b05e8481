# SPDX-License-Identifier: Apache-2.0
"""Whether what was measured is flat: the second half of the time that counts against the first."""

from dataclasses import dataclass, field
from statistics import median

SAMPLES_MIN = 6  # in each half; fewer say nothing


@dataclass(frozen=True)
class Measure:
    """Something that must not grow.

    Attributes:
        name: What it is, with its unit.
        tolerance: By which share the second half's median may be above the first half's,
        slack: and by how much beside that.
    """

    name: str
    tolerance: float
    slack: float


@dataclass
class Series:
    """The values of a measure, each with how much of the time that counts was over, from 0 to 1."""

    measure: Measure
    values: list[tuple[float, float]] = field(default_factory=list)

    def add(self, share: float, value: float) -> None:
        """Adds a sample."""
        self.values.append((share, value))

    @property
    def halves(self) -> tuple[list[float], list[float]]:
        """The values of each half."""
        first = [value for share, value in self.values if share < 1 / 2]
        return first, [value for share, value in self.values if share >= 1 / 2]

    @property
    def is_judged(self) -> bool:
        """Whether there are samples enough."""
        return all(len(half) >= SAMPLES_MIN for half in self.halves)

    @property
    def limit(self) -> float:
        """What the second half's median may be at most."""
        return median(self.halves[0]) * (1 + self.measure.tolerance) + self.measure.slack

    @property
    def grew(self) -> bool:
        """Whether it is no longer flat in the second half."""
        return self.is_judged and median(self.halves[1]) > self.limit
