# SPDX-License-Identifier: Apache-2.0
"""Whole workers on their way to other executors (`Relocations`), and executors on their way out.

`Drain` is an executor that is to be emptied of the state of all queries.
"""

import time
from typing import Any, Self

import pyarrow as pa

from spark_megaphone import _checks, _tables
from spark_megaphone._door import Application, Door
from spark_megaphone.errors import (
    DrainCancelled,
    DrainTimeout,
    MegaphoneError,
    RelocationFailed,
    RelocationTimeout,
    UnknownDrain,
    UnknownRelocation,
)

_OVER = ("done", "cancelled", "failed")


class Relocations:
    """Workers of a query that are on their way to other executors, made by `Megaphone`.

    A worker keeps its bins: it is placed on its target once the target has its state. That goes on
    as the query processes batches, even if this object is gone. It is kept in memory only: if the
    query or the application ends, it is forgotten. Any thread may use this object.

    Once the query has stopped, what asks raises `QueryStopped`, unless all have been seen to have
    ended. If the query has been started again, or a thousand others have ended since, it raises
    `UnknownRelocation`.
    """

    def __init__(self, door: Door, rows: list[dict[str, Any]]) -> None:
        self._door = door
        # Through SQL, rows name their query, too.
        self._last = [{name: row[name] for name in _tables.RELOCATIONS.names} for row in rows]

    @property
    def ids(self) -> tuple[int, ...]:
        """The numbers of the relocations, as `Megaphone.relocations` has them. Never asks."""
        return tuple(row["id"] for row in self._last)

    @property
    def status(self) -> str:
        """`running` until all have ended; then `done`, `failed` if one failed, or `cancelled`.

        Raises:
            QueryStopped: See the class.
        """
        found = {row["status"] for row in self._rows()}
        if not found <= set(_OVER):
            return "running"
        return next((end for end in ("failed", "cancelled") if end in found), "done")

    @property
    def progress(self) -> float:
        """The part of the workers that have run on their targets, from 0 to 1.

        Raises:
            QueryStopped: See the class.
        """
        rows = self._rows()
        return sum(1 for row in rows if row["status"] == "done") / len(rows)

    @property
    def bytes_ready(self) -> float | None:
        """The part of the workers' bytes that is on their targets, from 0 to 1; None if unknown.

        It grows while copies are made, before any worker has run on its target.

        Raises:
            QueryStopped: See the class.
        """
        rows = self._rows()
        if any(row["bytes"] is None for row in rows):
            return None
        whole = sum(row["bytes"] for row in rows)
        return sum(row["bytes_ready"] or 0 for row in rows) / whole if whole else 1.0

    def table(self) -> pa.Table:
        """The rows of these relocations, as `Megaphone.relocations` has them.

        Raises:
            QueryStopped: See the class.
        """
        return pa.Table.from_pylist(self._rows(), schema=_tables.RELOCATIONS)

    def cancel(self) -> None:
        """Lets the workers stay that no batch has placed on their targets. Others go on.

        Does nothing to those that have ended.

        Raises:
            UnknownRelocation: See the class.
            QueryStopped: See the class.
        """
        going = [row["id"] for row in self._rows() if row["status"] not in _OVER]
        if going:
            self._door.ask("cancelRelocations", going)

    def wait(self, timeout: float | None = None) -> Self:
        """Waits until all workers have run on their targets; returns at once if they have.

        Workers move only as the query runs batches.

        Args:
            timeout: Seconds; None for no limit. 0 looks once.

        Returns:
            These relocations.

        Raises:
            RelocationTimeout: The time is up. They go on.
            RelocationFailed: One failed, or was cancelled.
            QueryStopped: The query has ended before.
            WrongType: `timeout` is not a number.
        """
        deadline = _checks.deadline(timeout)
        while True:
            rows = self._rows()
            ended = [row for row in rows if row["status"] in ("failed", "cancelled")]
            if ended:
                first = ended[0]
                why = first["reason"] or "It was cancelled."
                raise RelocationFailed(
                    f"Worker {first['worker']} did not get to executor {first['target']}. {why} "
                    "workers() shows where it is; ask again."
                )
            going = [row for row in rows if row["status"] != "done"]
            if not going:
                return self
            left = deadline - time.monotonic()
            if left <= 0:
                raise RelocationTimeout(
                    f"{len(going)} of {len(rows)} workers were not on their executors after "
                    f"{timeout} s: {_of(going)}. They go on."
                )
            self._door.pause(left)

    def __repr__(self) -> str:
        try:
            rows = self._rows()
        except MegaphoneError:
            rows = self._last
        return f"Relocations({_of(rows)})"

    def _rows(self) -> list[dict[str, Any]]:
        """The newest rows; of those that were seen to have ended, what was seen."""
        if any(row["status"] not in _OVER for row in self._last):
            now = {row["id"]: row for row in self._door.ask("relocations")}
            for place, row in enumerate(self._last):
                if row["status"] in _OVER:
                    continue
                if row["id"] not in now:
                    raise unknown(row["id"])
                self._last[place] = {name: now[row["id"]][name] for name in row}
        return self._last


class Drain:
    """An executor that is to be emptied, made by `Megaphone.drain`.

    A drain goes on even if this object is gone, until it is cancelled or the executor is lost. If
    it is cancelled, the executor keeps its workers. Any thread may use this object.

    Once the application has stopped, what asks raises `QueryStopped`.
    """

    def __init__(self, application: Application, row: dict[str, Any]) -> None:
        self._application = application
        self._last = row

    @property
    def executor(self) -> str:
        """The executor's id. Never asks."""
        return str(self._last["executor"])

    @property
    def status(self) -> str:
        """One of `draining`, `drained`, `overdue`, `cordoned`, `released`, `lost`, `cancelled`.

        An executor is `drained` while nobody needs anything that is there. Spark may still bring
        state back: a task that is sent again runs anywhere. It is `overdue` if its time was up
        before, and `lost` if its process has ended before it was empty. One that is to be released
        is `cordoned` while it gets no more tasks and is about to end, and then `released`.

        Raises:
            QueryStopped: See the class.
        """
        return str(self._row()["status"])

    @property
    def workers(self) -> int:
        """How many workers of all queries are still to leave.

        Raises:
            QueryStopped: See the class.
        """
        return int(self._row()["workers"])

    @property
    def reason(self) -> str | None:
        """What it waits for; None if it waits for nothing.

        Raises:
            QueryStopped: See the class.
        """
        reason = self._row()["reason"]
        return None if reason is None else str(reason)

    def wait(self, timeout: float | None = None) -> Self:
        """Waits until the executor is empty; returns at once if it is, or was before it ended.

        If the executor is to be released, waits until it has ended.

        Args:
            timeout: Seconds; None for no limit. 0 looks once.

        Returns:
            This drain.

        Raises:
            DrainTimeout: The time is up. The drain goes on.
            DrainCancelled: The executor is to keep its workers, or it was lost.
            QueryStopped: See the class.
            WrongType: `timeout` is not a number.
        """
        deadline = _checks.deadline(timeout)
        while True:
            row = self._row()
            if row["status"] == "released" or (row["status"] == "drained" and not row["release"]):
                return self
            if row["status"] in ("lost", "cancelled"):
                what = "was lost" if row["status"] == "lost" else "is to keep its workers"
                raise DrainCancelled(
                    f"Executor {self.executor} {what}, and was not empty when it was last seen; "
                    "executors() shows those that are there."
                )
            left = deadline - time.monotonic()
            if left <= 0:
                raise DrainTimeout(
                    f"Executor {self.executor} was not {'ended' if row['release'] else 'empty'} "
                    f"after {timeout} s. {row['reason'] or 'It is empty.'} "
                    "The drain goes on."
                )
            time.sleep(min(self._application.look_s, left))  # nobody tells of an application

    def cancel(self) -> None:
        """Lets the executor keep its workers. Those that have left do not come back.

        Raises:
            UnknownDrain: It is cancelled already, or the executor was lost.
            DrainTooLate: Spark gives the executor no more tasks, and that cannot be taken back.
            QueryStopped: See the class.
        """
        self._last = self._application.ask("undrain", self.executor)

    def __repr__(self) -> str:
        try:
            row = self._row()
        except MegaphoneError:
            row = self._last
        waits = f": {row['reason']}" if row["reason"] else ""
        return f"Drain(executor {self.executor}, {row['status']}{waits})"

    def _row(self) -> dict[str, Any]:
        rows = self._application.ask("drains")
        found = [row for row in rows if row["executor"] == self.executor]
        if not found:
            raise UnknownDrain(
                f"Executor {self.executor} is not to be emptied: drains() shows none for it that "
                "is under way."
            )
        self._last = found[0]
        return self._last


def unknown(id: int) -> UnknownRelocation:
    """What a relocation that the run does not have is refused with."""
    return UnknownRelocation(
        f"The run has no relocation {id}, or it ended long ago; relocations() lists those it has."
    )


def _of(rows: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"worker {row['worker']} to executor {row['target']} {row['status']}" for row in rows
    )
