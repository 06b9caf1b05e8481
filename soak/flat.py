# SPDX-License-Identifier: Apache-2.0
"""Whether what was measured is flat: the last third of a run against the second."""

from dataclasses import dataclass, field
from statistics import median

SAMPLES_MIN = 6  # in each third; fewer say nothing


@dataclass(frozen=True)
class Measure:
    """Something that must not grow.

    Attributes:
        name: What it is, with its unit.
        tolerance: By which share the last third's median may be above the second third's,
        slack: and by how much beside that.
    """

    name: str
    tolerance: float
    slack: float


@dataclass
class Series:
    """The values of a measure over a run, each with how much of the run was over, from 0 to 1."""

    measure: Measure
    values: list[tuple[float, float]] = field(default_factory=list)

    def add(self, share: float, value: float) -> None:
        """Adds a sample."""
        self.values.append((share, value))

    def third(self, number: int) -> list[float]:
        """The values of a third, from 0."""
        return [v for share, v in self.values if min(int(share * 3), 2) == number]

    @property
    def is_judged(self) -> bool:
        """Whether there are samples enough."""
        return all(len(self.third(number)) >= SAMPLES_MIN for number in (1, 2))

    @property
    def limit(self) -> float:
        """What the last third's median may be at most."""
        return median(self.third(1)) * (1 + self.measure.tolerance) + self.measure.slack

    @property
    def grew(self) -> bool:
        """Whether it is no longer flat in the last third."""
        return self.is_judged and median(self.third(2)) > self.limit
