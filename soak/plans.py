# SPDX-License-Identifier: Apache-2.0
"""Random plans, and what becomes of each: it ends, or was refused with a reason that has a name."""

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from soak.course import Log
from testkit.driver_process import Refused
from testkit.remote import RemoteQuery

STRATEGIES = ("all-at-once", "batched", "batched(5)", "optimized", "fluid")
MODES = ("prepared", "direct", "on-demand", "replicated")
WORKERS_MAX = 5
# What may be said to a plan that knows nothing of the others.
REFUSALS = {"OverlappingPlan", "EmptyPlan", "UnknownWorker", "NoBinnedState", "NoReplicas"}
FINAL = ("done", "cancelled", "failed")
STALLED_ROUNDS = 40


@dataclass
class _Open:
    query: RemoteQuery
    progress: tuple[Any, ...]
    since: int


class Plans:
    """All plans of a run.

    Attributes:
        ends: How many ended in which way, or were refused by which name.
        modes: How many were done by each mode.
        reasons: What those that failed said.
    """

    def __init__(self, log: Log) -> None:
        self.ends: Counter[str] = Counter()
        self.modes: Counter[str] = Counter()
        self.reasons: list[str] = []
        self._log = log
        self._open: dict[str, _Open] = {}

    def submit(self, query: RemoteQuery, dice: Random, round: int) -> None:
        """Submits a random plan; a refusal that has a known name is counted."""
        verb, what, how = _asked(query, dice)
        told = f"{query.name}: {verb} {_short(what)} {how}"
        try:
            id = query.submit(verb, what, **how)
        except Refused as refused:
            if refused.name not in REFUSALS:
                raise
            self.ends[refused.name] += 1
            self._log(f"{told}: {refused.name}")
            return
        self._open[id] = _Open(query, (), round)
        self._log(f"{told}: plan {id}")

    def cancel(self, dice: Random) -> None:
        """Cancels one of those that are open, if any is."""
        if self._open:
            id = dice.choice(sorted(self._open))
            self._log(f"{self._open[id].query.name}: cancel plan {id}")
            self._open[id].query.call("cancel", id=id)

    def is_open(self) -> bool:
        """Whether one has not ended."""
        return bool(self._open)

    def follow(self, round: int) -> None:
        """Looks at those that are open, and logs what has ended.

        Raises:
            TimeoutError: One has not gone on for many rounds.
        """
        rows: dict[str, dict[str, Any]] = {}
        for query in {each.query.name: each.query for each in self._open.values()}.values():
            rows |= {row["id"]: row for row in query.table("plans")}
        for id, known in list(self._open.items()):
            row = rows[id]
            progress = row["status"], row["steps_done"], row["moves_done"]
            if row["status"] in FINAL:
                del self._open[id]
                self._end(known.query, row)
            elif progress != known.progress:
                self._open[id] = _Open(known.query, progress, round)
            elif round - known.since > STALLED_ROUNDS:
                raise TimeoutError(
                    f"Plan {id} of {known.query.name} has not gone on for {STALLED_ROUNDS} "
                    f"rounds: {row}"
                )

    def left(self, query: RemoteQuery) -> None:
        """A query has gone, and its open plans with it."""
        for id in [id for id, known in self._open.items() if known.query is query]:
            del self._open[id]
            self.ends["gone with its query"] += 1

    def _end(self, query: RemoteQuery, row: dict[str, Any]) -> None:
        self.ends[row["status"]] += 1
        done = f"{row['moves_done']} of {row['moves']} moves"
        self._log(f"{query.name}: plan {row['id']} {row['status']}, {done}, at {row['batches']}")
        if row["status"] == "failed":
            assert row["reason"], f"plan {row['id']} of {query.name} failed without a reason"
            self.reasons.append(f"{query.name}: {row['reason']}")
        if row["status"] == "done":
            assert row["moves_done"] == row["moves"], row
            self.modes[row["mode"]] += 1


def _asked(query: RemoteQuery, dice: Random) -> tuple[str, Any, dict[str, Any]]:
    """A verb of the handle, what it takes, and how."""
    verb = dice.choice(("rescale", "rescale", "move", "submit"))
    how: dict[str, Any] = {"strategy": dice.choice(STRATEGIES), "mode": dice.choice(MODES)}
    workers, operator = dice.randint(1, WORKERS_MAX), dice.random()
    bins = int(query.settings["spark.megaphone.bins"])
    steps = [_moves(dice, bins) for _ in range(dice.randint(1, 3))]
    if operator < 1 / 3:
        how["operator"] = 0
    if verb == "rescale":
        return verb, workers, how
    if verb == "move":
        return verb, steps[0], how
    return verb, [list(step.items()) for step in steps], how


def _moves(dice: Random, bins: int) -> dict[int, int]:
    """Some bins, each to one of the first two workers: most plans leave them."""
    return {bin: dice.randrange(2) for bin in dice.sample(range(bins), dice.randint(1, bins // 2))}


def _short(what: Any) -> str:
    text = str(what)
    return text if len(text) < 80 else f"{text[:80]}…"
