# SPDX-License-Identifier: Apache-2.0
"""A running query whose answer is known: over files, each a batch, which a batch query reads too.

There are two ways to run it: in this process (`in_process`), and in a driver process of its own
(`remote`), so that the driver can be killed.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from spark_megaphone import Plan
from testkit.answers import Rows, check_rows
from testkit.input import FLUSH, Input, Pattern

PATIENCE_S = 60


class RunningQuery(ABC):
    """One query in `folder`: its input, its checkpoint and its answer. For one thread.

    It may be stopped and started again, as often as a test likes.
    """

    batches_to_finish = 16  # a plan has so many at least to be done

    def __init__(self, folder: Path, mode: str, pattern: Pattern) -> None:
        self.folder, self.mode = folder, mode
        self.input = Input(folder / "input", pattern)
        self.checkpoint = folder / "checkpoint"

    @abstractmethod
    def stop(self) -> object:
        """Stops it; does nothing where it has stopped."""

    @abstractmethod
    def settle(self) -> int:
        """Waits until all files that are there are processed; returns the newest batch."""

    @property
    @abstractmethod
    def given(self) -> dict[int, Rows]:
        """The rows that each batch has given out; a batch that is run again replaces itself."""

    @abstractmethod
    def answer(self, *, batches: slice = slice(None)) -> Rows:
        """What a batch query over the same input answers, or over some batches of it."""

    @abstractmethod
    def totals_in_state(self, batch: int | None = None, operator: int = 0) -> Rows:
        """Key, count and sum in the newest state of totals, or in that which a batch left."""

    @abstractmethod
    def submit(self, verb: str, what: Any, **how: Any) -> str:
        """Submits a plan by a verb of the handle; returns its id."""

    @abstractmethod
    def table(self, which: str) -> list[dict[str, Any]]:
        """The rows of a table of the handle."""

    def migrations_after(self, batch: int) -> list[dict[str, Any]]:
        """The rows of the table of migrations that are of later batches than one."""
        return [row for row in self.table("migrations") if row["batch"] > batch]

    # ---- Its input.

    def write(self, batches: int = 1) -> Self:
        """Writes the input of so many batches."""
        self.input.write(batches)
        return self

    def run(self, batches: int = 1) -> Self:
        """Writes so many batches, and waits until they are processed."""
        self.write(batches).settle()
        return self

    def run_until(self, is_so: Callable[[], bool], what: str, within: int | None = None) -> None:
        """Runs batches until it is so; fails if it is not after so many.

        Without a bound it runs at least `batches_to_finish`, and for a minute if batches are quick:
        copies and reports take their time beside the batches, on a slow machine more than usual.
        """
        batches = self.batches_to_finish if within is None else within
        deadline, ran = time.monotonic() + (PATIENCE_S if within is None else 0), 0
        while not is_so():
            assert ran < batches or time.monotonic() < deadline, (
                f"not within {ran} batches: {what}; {self.table('plans')}"
            )
            self.run()
            ran += 1

    def flush(self) -> Self:
        """Moves event time on, so that the watermark passes all that there is."""
        for _ in range(2):
            self.input.write_late()
        self.settle()
        return self

    # ---- Its plans.

    def plan(self, id: str) -> dict[str, Any]:
        """A plan's row. Raises LookupError if the query has no such plan."""
        for row in self.table("plans"):
            if row["id"] == id:
                return row
        raise LookupError(f"The query has no plan {id}.")

    def finish(self, plan: Plan | str, within: int | None = None) -> dict[str, Any]:
        """Runs batches until a plan is done, as `run_until` does. Returns its row."""
        id = plan if isinstance(plan, str) else plan.id

        def is_done() -> bool:
            # A plan keeps what it was asked last, also when its query has stopped.
            status = self.plan(id)["status"] if isinstance(plan, str) else plan.status
            return bool(status == "done")

        self.run_until(is_done, f"plan {id} is done", within)
        row = self.plan(id)
        assert row["moves_done"] == row["moves"], row
        return row

    def move_half(self, source: int, target: int, *, mode: str = "prepared") -> str:
        """Submits a plan of one step: every other bin of one worker goes to another."""
        moves = dict.fromkeys(self.bins_of(source)[::2], target)
        return self.submit("move", moves, strategy="all-at-once", mode=mode)

    def workers(self) -> dict[int, int]:
        """How many workers each group of operators has."""
        return dict(Counter(row["operator"] for row in self.table("workers")))

    def executor_of(self, worker: int, operator: int = 0) -> str:
        """The executor that a worker ran on last."""
        (row,) = (
            row
            for row in self.table("workers")
            if (row["worker"], row["operator"]) == (worker, operator)
        )
        return str(row["executor"])

    def bins_of(self, worker: int, operator: int = 0) -> list[int]:
        """The bins of a worker, ascending."""
        rows = self.table("bins")
        return [r["bin"] for r in rows if (r["worker"], r["operator"]) == (worker, operator)]

    # ---- Its answer.

    def given_out(self, keys: int = 1) -> Rows:
        """What the output says at the end.

        In update mode these are the last rows of each key, which is a row's first columns.
        """
        given = self.given
        batches = [given[batch] for batch in sorted(given)]
        if self.mode == "complete":
            return batches[-1]
        rows = [row for batch in batches for row in batch]
        return rows if self.mode == "append" else list({row[:keys]: row for row in rows}.values())

    def check(self, keys: int = 1, expected: Rows | None = None) -> None:
        """The output must be the batch answer, or what is expected instead."""
        for batch, rows in self.given.items():
            found = Counter(row[:keys] for row in rows if FLUSH not in row)
            twice = [key for key, n in found.items() if n > 1]
            assert self.mode == "append" or not twice, (
                f"batch {batch} has {len(twice)} keys twice: {twice[:3]}"
            )
        check_rows(self.given_out(keys), self.answer() if expected is None else expected)

    def check_state(self, batch: int | None = None, operator: int = 0) -> None:
        """The state of totals, or that which a batch left, must be the batch answer until then."""
        until_then = slice(None if batch is None else batch + 1)
        check_rows(self.totals_in_state(batch, operator), self.answer(batches=until_then))

    def stop_and_check(self, operator: int = 0) -> None:
        """Stops it; output and state must be the batch answer."""
        self.stop()
        self.check()
        self.check_state(operator=operator)
