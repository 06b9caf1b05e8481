# SPDX-License-Identifier: Apache-2.0
"""One query as a test holds it, over as many drivers and restarts as the test likes, and its
verdict.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drivers import DriverProcess
from inputs import Input, Totals, wrong

PATIENCE_BATCHES = 4


class Query:
    """A query in `folder`: its input, its checkpoint and the rows that it has given out."""

    def __init__(
        self,
        folder: Path,
        *,
        kind: str = "totals",
        format: int = 2,
        rows: int = 2000,
        **settings: str,
    ) -> None:
        self.name = folder.name
        self.kind = kind
        self.input = Input(folder / "input", rows=rows)
        self.checkpoint = folder / "checkpoint"
        self.sink = folder / "sink"
        self.settings = {
            "spark.sql.streaming.stateStore.checkpointFormatVersion": str(format),
            "spark.megaphone.transfer.patienceBatches": str(PATIENCE_BATCHES),
        } | settings
        self.driver: DriverProcess | None = None

    def start(self, driver: DriverProcess) -> "Query":
        driver.wait_for_executors()
        self.driver = driver
        self.call(
            "start",
            kind=self.kind,
            source=str(self.input.folder),
            checkpoint=str(self.checkpoint),
            sink=str(self.sink),
            settings=self.settings,
        )
        return self

    def spread(self) -> "Query":
        """Waits for all executors, and feeds until the first two workers run on different ones."""
        assert self.driver is not None
        self.driver.wait_for_executors()
        for _ in range(4):
            self.feed()
            first, second = self.executor_of(0), self.executor_of(1)
            if first != second:
                return self
            other = next(e for e in self.driver.call("executors") if e != first)
            self.call("pin", worker=1, executor=other)
        raise AssertionError(f"both workers stay on executor {first}")

    def call(self, verb: str, /, **arguments: Any) -> Any:
        assert self.driver is not None
        return self.driver.call(verb, name=self.name, **arguments)

    def feed(self, batches: int = 1) -> int:
        """Gives it more input, and waits until it is processed; the newest batch."""
        self.input.show(batches)
        return int(self.call("settle"))

    def submit(self, verb: str, what: Any, **how: Any) -> str:
        return str(self.call("submit", verb=verb, what=what, how=how))

    def plan(self, plan: str) -> dict[str, Any]:
        row: dict[str, Any] = self.call("plan", id=plan)
        return row

    def finish(self, plan: str, within: int = PATIENCE_BATCHES + 6) -> dict[str, Any]:
        """Feeds until the plan is done; it must be, within so many batches."""
        for _ in range(within):
            if self.plan(plan)["status"] == "done":
                break
            self.feed()
        row = self.plan(plan)
        assert row["status"] == "done", f"the plan did not end within {within} batches: {row}"
        assert row["moves_done"] == row["moves"]
        return row

    def table(self, which: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.call("table", which=which)
        return rows

    def executor_of(self, worker: int, operator: int = 0) -> str:
        rows = self.table("workers")
        return str(
            next(r["executor"] for r in rows if r["worker"] == worker and r["operator"] == operator)
        )

    def bins_of(self, worker: int, operator: int = 0) -> list[int]:
        rows = self.table("bins")
        return [r["bin"] for r in rows if r["worker"] == worker and r["operator"] == operator]

    def move_half(self, source: int, target: int, *, mode: str = "prepared") -> str:
        """Submits a plan of one step: every other bin of one worker goes to another."""
        bins = self.bins_of(source)[::2]
        return self.submit(
            "move", {str(b): target for b in bins}, strategy="all-at-once", mode=mode
        )

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows that the sink has, in the order of their batches."""
        files = sorted(self.sink.glob("*.json"), key=lambda f: int(f.stem))
        return [tuple(row) for file in files for row in json.loads(file.read_text())]

    def given_out(self) -> Totals:
        """The last row of each key that the sink has."""
        return {k: (n, s) for k, n, s in self.rows()}

    def check_given_out(self) -> None:
        mistakes = wrong(self.given_out(), self.input.totals())
        assert not mistakes, f"{len(mistakes)} wrong rows in the sink, such as {mistakes[0]}"

    def check_state(self, operator: int = 0) -> None:
        assert self.driver is not None
        rows = self.driver.call("state", checkpoint=str(self.checkpoint), operator=operator)
        found = {k: (n, s) for k, n, s in rows}
        assert len(found) == len(rows), "a key stands twice in the state"
        mistakes = wrong(found, self.input.totals())
        assert not mistakes, f"{len(mistakes)} wrong rows in the state, such as {mistakes[0]}"

    def check(self, operator: int = 0) -> None:
        """Stops it; sink and state must be the batch answer over the same input."""
        self.call("stop")
        self.check_given_out()
        self.check_state(operator)


MakeQuery = Callable[..., Query]
