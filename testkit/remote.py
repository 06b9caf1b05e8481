# SPDX-License-Identifier: Apache-2.0
"""Queries in driver processes, over as many drivers and restarts as a test likes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from testkit.answers import Rows
from testkit.driver_process import DriverProcess
from testkit.input import Pattern
from testkit.running_query import RunningQuery
from testkit.shapes import KINDS
from testkit.waiting import until

PATIENCE_BATCHES = 4
SPREAD_SECONDS = 120
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
BINNED = "io.megaphone.BinnedStateStoreProvider"


class RemoteQuery(RunningQuery):
    """A query of one of the `KINDS`, on the driver that it was started on last.

    Attributes:
        root: Its checkpoint as Spark names it: a local folder, unless it was made with another.
        sink: A folder with a file for each batch that has given rows out.
        driver: None before the first start.
    """

    batches_to_finish = PATIENCE_BATCHES + 6

    def __init__(
        self,
        folder: Path,
        *,
        kind: str = "totals",
        format: int = 2,
        pattern: Pattern | None = None,
        checkpoint: str | None = None,
        **settings: str,
    ) -> None:
        super().__init__(folder, KINDS[kind].mode, pattern or KINDS[kind].pattern)
        self.root = checkpoint or str(self.checkpoint)
        self.name, self.kind = folder.name, kind
        self.sink = folder / "sink"
        self.settings = {
            PROVIDER: BINNED,
            "spark.sql.streaming.stateStore.checkpointFormatVersion": str(format),
            "spark.megaphone.transfer.patienceBatches": str(PATIENCE_BATCHES),
            **KINDS[kind].settings,
        } | settings
        self.driver: DriverProcess | None = None

    def start(self, driver: DriverProcess) -> Self:
        """Starts it on a driver, once all executors are there."""
        driver.wait_for_executors()
        self.driver = driver
        self.begin()
        return self

    def begin(self) -> None:
        """Has its driver start it."""
        self.call(
            "start",
            kind=self.kind,
            source=str(self.input.folder),
            checkpoint=self.root,
            sink=str(self.sink),
            settings=self.settings,
        )

    def spread(self) -> Self:
        """Waits for all executors, and runs until the first two workers are on different ones."""
        assert self.driver is not None
        self.driver.wait_for_executors()
        self.run()
        first = self.executor_of(0)
        if self.executor_of(1) == first:
            other = next(e for e in self.driver.call("executors") if e != first)
            self.call("place", workers={1: other}, operator=0)
            until(
                self._is_spread, "the first two workers run on different executors", SPREAD_SECONDS
            )
        return self

    def _is_spread(self) -> bool:
        """Whether they are. If not, runs a batch: the second goes once its state is there."""
        if self.executor_of(0) == self.executor_of(1):
            self.run()
            return False
        return True

    def call(self, verb: str, /, **arguments: Any) -> Any:
        """One command of the driver's that concerns this query, and its answer."""
        assert self.driver is not None
        return self.driver.call(verb, name=self.name, **arguments)

    def stop(self) -> float:
        """Stops it; returns the seconds that it took."""
        return float(self.call("stop"))

    def settle(self) -> int:
        return int(self.call("settle"))

    @property
    def given(self) -> dict[int, Rows]:
        return {
            int(file.stem): [tuple(row) for row in json.loads(file.read_text())]
            for file in self.sink.glob("*.json")
        }

    def given_out(self, keys: int = 1) -> Rows:
        rows = super().given_out(keys)
        folded = KINDS[self.kind].folded
        return rows if folded is None else folded(rows)

    def answer(self, *, batches: slice = slice(None)) -> Rows:
        assert self.driver is not None
        files = [str(file) for file in self.input.files()[batches]]
        return _tuples(self.driver.call("answer", kind=self.kind, files=files))

    def large_rows(self) -> tuple[Rows, Rows]:
        """The state of the large join, and what a batch query says that it must be."""
        assert self.driver is not None
        files = [str(file) for file in self.input.files()]
        expected = self.driver.call("answer", kind="large rows", files=files)
        return _tuples(self.driver.call("large_in_state", checkpoint=self.root)), _tuples(expected)

    def totals_in_state(self, batch: int | None = None, operator: int = 0) -> Rows:
        assert self.driver is not None
        where: dict[str, Any] = {
            "checkpoint": self.root,
            "batch": batch,
            "operator": operator,
        }
        return _tuples(self.driver.call("totals_in_state", **where))

    def logged(self, log: str) -> list[int]:
        """The batches in Spark's `offsets` or `commits`, ascending."""
        return sorted(int(f.name) for f in (self.checkpoint / log).iterdir() if f.name.isdigit())

    def forget_after(self, batch: int) -> None:
        """Has a query that has stopped go on after a batch of the past.

        The user has deleted the offsets and commits behind it, and takes the sink back likewise.
        """
        for newer in (b for b in self.logged("offsets") if b > batch):
            (self.checkpoint / "offsets" / str(newer)).unlink()
            (self.checkpoint / "commits" / str(newer)).unlink()
            (self.sink / f"{newer}.json").unlink()

    def plan_log(self) -> list[bytes]:
        """The records of the plan log, in order."""
        folder = self.checkpoint / "megaphone" / "log"
        files = sorted((f for f in folder.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
        return [f.read_bytes() for f in files]

    def submit(self, verb: str, what: Any, **how: Any) -> str:
        if verb == "move":
            what = list(what.items())
        return str(self.call("submit", verb=verb, what=what, how=how))

    def table(self, which: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.call("table", which=which)
        return rows


def _tuples(rows: list[list[Any]]) -> Rows:
    return [tuple(row) for row in rows]


MakeRemoteQuery = Callable[..., RemoteQuery]
