# SPDX-License-Identifier: Apache-2.0
"""Watches a query while the demo acts: prints its batches as they end, and waits for what should
happen.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql.streaming.query import StreamingQuery

from spark_megaphone import Megaphone, Plan

_POLL_S = 0.2


@dataclass(frozen=True)
class Batch:
    """A batch that has ended."""

    number: int
    duration_s: float
    rows: int


@dataclass
class Act:
    """Something that was done to the query, and the batches from its beginning to its end."""

    name: str
    first_batch: int
    last_batch: int


class Watch:
    """Sees a query's batches. For one thread."""

    def __init__(self, query: StreamingQuery, batches_count: int, deadline: float) -> None:
        self.query = query
        self.batches: list[Batch] = []
        self.acts: list[Act] = []
        self._handle = Megaphone(query)
        self._batches_count = batches_count
        self._start = time.monotonic()
        self._deadline = deadline

    def say(self, text: str) -> None:
        """Prints a line, with the time since the start."""
        print(f"{time.monotonic() - self._start:6.1f} s  {text}", flush=True)

    @property
    def next_batch(self) -> int:
        """The number of the batch that runs now, or comes next."""
        return self.batches[-1].number + 1 if self.batches else 0

    @property
    def is_through(self) -> bool:
        """Whether all files have been read."""
        return self.next_batch >= self._batches_count

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition, printing batches.

        Raises:
            StreamingQueryException: The query failed.
            RuntimeError: All files were read before that.
            TimeoutError: The demo's time is up.
        """
        while not condition():
            self._look()
            if self.is_through and not condition():
                raise RuntimeError(f"All files were read before {what}.")
            if time.monotonic() > self._deadline:
                raise TimeoutError(f"Not in time: {what}.")
            self.query.awaitTermination(_POLL_S)  # type: ignore[arg-type]
        self._look()

    def run(self, batches: int) -> None:
        """Lets the query run some more batches."""
        end = self.next_batch + batches
        self.until(lambda: self.next_batch >= end, f"batch {end - 1} ended")

    def finish(self) -> None:
        """Lets the query read the rest."""
        self.until(lambda: self.is_through, "the end")

    def done(self, plan: Plan) -> None:
        """Waits until a plan is done."""
        self.until(lambda: plan.status == "done", f"plan {plan.id} was done")

    @contextmanager
    def act(self, name: str) -> Iterator[None]:
        """Remembers what is done in the block, and at which batches."""
        self.say(f"─── {name}")
        act = Act(name, self.next_batch, self.next_batch)
        self.acts.append(act)
        yield
        act.last_batch = max(act.first_batch, self.next_batch - 1)

    def _look(self) -> None:
        if (failure := self.query.exception()) is not None:
            raise failure
        last = self.query.lastProgress
        if last is None or last["batchId"] < self.next_batch:
            return
        for progress in self.query.recentProgress:
            if progress["batchId"] >= self.next_batch and progress["numInputRows"] > 0:
                duration_s = progress["durationMs"]["triggerExecution"] / 1000
                self.batches.append(
                    Batch(progress["batchId"], duration_s, progress["numInputRows"])
                )
                self.say(self._line(self.batches[-1]))

    def _line(self, batch: Batch) -> str:
        workers = self._handle.workers().to_pylist()
        places = " ".join(f"{w['worker']}@{w['executor'] or '?'}:{w['bins']}" for w in workers)
        return (
            f"batch {batch.number:>3}  {batch.duration_s:5.2f} s  {batch.rows:>8,} rows   {places}"
        )
