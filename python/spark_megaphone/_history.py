# SPDX-License-Identifier: Apache-2.0
"""What the newest batches of a query did, and where its bins were meanwhile.

Tables tell where each bin is now, and where each step moved bins to, but not where they came from.
That is where the step before had moved them. A bin that no earlier step moved was where it was when
the query began: bin `b` on worker `b mod workers`. The number of workers of then is found, for it
must put each bin that never moved where that still is, and no bin where its first step moved it. If
no number does, because the plan log was trimmed, or more than one, the places are told as unknown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]

_BATCHES_MAX = 1000

# Bins by worker; None stands for a worker that is not known.
Shares = Counter[int | None]


@dataclass(frozen=True)
class Taken:
    """A step that has taken effect.

    Attributes:
        operator: The group of operators whose bins moved.
        batch: The batch at which it took effect.
        moves: Bin to worker, without the bins that stayed.
    """

    operator: int
    batch: int
    moves: dict[int, int]


@dataclass(frozen=True)
class History:
    """What is known of the newest batches.

    Attributes:
        batches: Their numbers, without a gap.
        durations_s: Of those whose duration is known; None if this client cannot know any.
        steps: Those that took effect at these batches.
        shares: For each group of operators, its bins by worker in each of the batches.
    """

    batches: range
    durations_s: dict[int, float] | None
    steps: list[Taken] = field(default_factory=list)
    shares: dict[int, list[Shares]] = field(default_factory=dict)


def history(
    bins: Iterable[Row],
    steps: Iterable[Row],
    progress: Sequence[Row] | None,
    newest: int | None = None,
) -> History:
    """Puts together what a query tells.

    Args:
        bins: The table of bins. It was asked for before the steps, so what a step of these has
            moved since is seen.
        steps: The steps of all plans, in the order of submission.
        progress: Spark's own of the newest batches, the oldest first; None if it is not known.
        newest: The newest batch otherwise known, for want of progress.

    Returns:
        The history of the batches that have progress. Without any: of those from the last before
        the first step to the newest. Of at most the newest thousand: a picture has no more dots.
    """
    taken = steps_taken(steps)
    durations_s = None if progress is None else durations(progress)
    if durations_s:
        batches = range(min(durations_s), max(durations_s) + 1)
    else:
        ends = [step.batch for step in taken] + ([] if newest is None else [newest])
        last = max(ends, default=0)
        batches = range(max(0, min(ends, default=0) - 1) if taken else last, last + 1)
    batches = batches[-_BATCHES_MAX:]
    owners: dict[int, dict[int, int]] = {}
    for row in bins:
        owners.setdefault(row["operator"], {})[row["bin"]] = row["worker"]
    return History(
        batches=batches,
        durations_s=durations_s and {b: s for b, s in durations_s.items() if b in batches},
        steps=[step for step in taken if step.batch in batches],
        shares={
            group: shares(
                owners[group], [step for step in taken if step.operator == group], batches
            )
            for group in sorted(owners)
        },
    )


def durations(progress: Iterable[Row]) -> dict[int, float]:
    """Seconds by batch. Progress of a trigger that ran no batch does not count."""
    return {
        row["batchId"]: row["durationMs"]["triggerExecution"] / 1000
        for row in progress
        if "addBatch" in row["durationMs"]
    }


def steps_taken(rows: Iterable[Row]) -> list[Taken]:
    """The steps that have taken effect, in that order.

    Args:
        rows: Of the table of steps, plan after plan in the order of submission.
    """
    taken = [
        Taken(
            operator=row["operator"],
            batch=row["batch"],
            moves={
                bin_: target
                for bin_, target in zip(row["bins"], row["targets"], strict=True)
                if bin_ not in row["stayed"]
            },
        )
        for row in rows
        if row["batch"] is not None
    ]
    return sorted(taken, key=lambda step: step.batch)


def shares(owners: Mapping[int, int], steps: Sequence[Taken], batches: range) -> list[Shares]:
    """How many bins each worker of a group had.

    Args:
        owners: The worker of each bin now.
        steps: All steps of the group that have taken effect, in that order.
        batches: Which batches to tell of.

    Returns:
        The bins by worker in each of the batches. A worker without a bin is not in them.
    """
    owner = first_owners(owners, steps)
    now: Shares = Counter(owner.values())
    left = list(reversed(steps))
    found = []
    for batch in batches:
        while left and left[-1].batch <= batch:
            for bin_, target in left.pop().moves.items():
                now[owner[bin_]] -= 1
                now[target] += 1
                owner[bin_] = target
        found.append(+now)
    return found


def first_owners(owners: Mapping[int, int], steps: Sequence[Taken]) -> dict[int, int | None]:
    """The worker of each bin before any of the steps; None if it cannot be known."""
    targets: dict[int, int] = {}  # of the first move of each bin
    for step in reversed(steps):
        targets.update(step.moves)
    never_moved = {bin_: worker for bin_, worker in owners.items() if bin_ not in targets}
    # More workers than bins begin as many as there are bins do.
    fitting = (
        workers
        for workers in range(1, len(owners) + 1)
        if all(bin_ % workers == worker for bin_, worker in never_moved.items())
        and all(bin_ % workers != target for bin_, target in targets.items())
    )
    workers, other = next(fitting, None), next(fitting, None)
    if workers is None or other is not None:
        return {bin_: never_moved.get(bin_) for bin_ in owners}
    return {bin_: bin_ % workers for bin_ in owners}
