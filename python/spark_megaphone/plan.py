# SPDX-License-Identifier: Apache-2.0
"""Plans: what is asked for (`Step`), and what becomes of it (`Plan`, `PlanStep`)."""

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tqdm.auto import tqdm

from spark_megaphone import _html
from spark_megaphone._checks import Moves, deadline, moves_of, workers_count
from spark_megaphone._door import Door
from spark_megaphone.errors import (
    MegaphoneError,
    PlanCancelled,
    PlanFailed,
    PlanTimeout,
    QueryStopped,
    WrongType,
)

_IDLE_S = 2.0  # a query between two batches is not idle
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt} moves, {elapsed}{postfix}"
_FINAL = ("done", "cancelled", "failed")


@dataclass(frozen=True)
class Step:
    """Moves that take effect together, at one batch; a plan made by hand is a sequence of these.

    Checked when it is made, except for what only the query knows (whether there is such a bin or
    worker).

    Attributes:
        moves: Bin to target worker. Pairs of bin and worker are taken too, each bin at most once.
        workers: How many workers there are once the step has taken effect; None for as many as
            before it.

    Raises:
        WrongType: Something is not a whole number.
        DuplicateBin: A bin comes twice.
        InvalidWorkers: `workers` is out of range.
    """

    moves: Moves = field(default_factory=dict)
    workers: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "moves", moves_of(self.moves))
        if self.workers is not None:
            object.__setattr__(self, "workers", workers_count(self.workers))

    def as_row(self) -> dict[str, object]:
        """The step as the plugin reads it.

        Returns:
            Bin to worker as `moves`, and the number of `workers`, None for as many as before.
        """
        moves = {str(bin): worker for bin, worker in moves_of(self.moves).items()}
        return {"moves": moves, "workers": self.workers}


def steps_of(plan: Iterable[Step | Moves]) -> list[Step]:
    """Checks a plan made by hand.

    Args:
        plan: The steps in order, each a `Step` or its moves.

    Returns:
        The steps.

    Raises:
        WrongType: It is no list of steps. For the others see `Step`.
    """
    if isinstance(plan, Step | Mapping | str) or not isinstance(plan, Iterable):
        raise WrongType(
            f"The plan is {plan!r}, but a list of steps is needed: [{{bin: worker}}, …]."
        )
    return [step if isinstance(step, Step) else Step(step) for step in plan]


@dataclass(frozen=True)
class PlanStep:
    """A step of a submitted plan.

    Attributes:
        operator: The stateful operator whose group of operators it moves.
        index: Its place in the plan, among the steps of this operator, from 0.
        moves: Bin to target worker.
        workers: How many workers there are once it has taken effect.
        batch: The batch at which it took effect; None before that.
        stayed: Bins of the step whose target had no room. They stay on their worker.
    """

    operator: int
    index: int
    moves: dict[int, int]
    workers: int
    batch: int | None
    stayed: tuple[int, ...] = ()


class Plan:
    """A submitted plan, made by `Megaphone`.

    The plan runs as the query processes batches, even if this object is gone. Any thread may use
    this object.

    `status`, `progress` and `batches_left` ask the JVM each time, until they have seen the plan
    ended. From then on they answer from what they saw, also after the query has stopped. `id`,
    `strategy` and `mode` never ask; `steps` always does. If the query has stopped, asking raises
    `QueryStopped`; if the plan ended so long ago that the plan log was trimmed, `UnknownPlan`.
    """

    def __init__(self, door: Door, row: dict[str, Any]) -> None:
        self._door = door
        self._last = row

    @property
    def id(self) -> str:
        """The plan's id, unique in the query and the same after a restart."""
        return str(self._last["id"])

    @property
    def status(self) -> str:
        """One of `submitted`, `preparing`, `running`, `done`, `cancelled` and `failed`.

        The last three are final.

        Raises:
            QueryStopped: See the class.
            UnknownPlan: See the class.
        """
        return str(self._row()["status"])

    @property
    def progress(self) -> float:
        """How much has taken effect, from 0 to 1: by moves, or by steps where nothing moves.

        Raises:
            QueryStopped: See the class.
            UnknownPlan: See the class.
        """
        row = self._row()
        return float(
            row["moves_done"] / row["moves"] if row["moves"] else row["steps_done"] / row["steps"]
        )

    @property
    def batches_left(self) -> int:
        """The fewest batches that it still takes; 0 once it has ended.

        Each step takes effect at a batch of its own, once its bins are prepared: a plan of mode
        `prepared` takes some more.

        Raises:
            QueryStopped: See the class.
            UnknownPlan: See the class.
        """
        return int(self._row()["batches_left"])

    @property
    def strategy(self) -> str:
        """How its moves were grouped into steps; `as given` for steps made by hand."""
        return str(self._last["strategy"])

    @property
    def mode(self) -> str:
        """When its bytes travel: `prepared`, `direct`, `replicated` or `on-demand`."""
        return str(self._last["mode"])

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """Its steps, by operator, then in order.

        Raises:
            QueryStopped: The query has stopped, even if the plan has ended.
            UnknownPlan: The plan ended so long ago that the plan log was trimmed.
        """
        return tuple(
            PlanStep(
                operator=row["operator"],
                index=row["step"],
                moves=dict(zip(row["bins"], row["targets"], strict=True)),
                workers=row["workers"],
                batch=row["batch"],
                stayed=tuple(row["stayed"]),
            )
            for row in self._door.ask("steps", self.id)
        )

    def cancel(self) -> None:
        """Drops the steps that have not taken effect.

        Those that have taken effect stay. Does nothing if the plan has ended, or was cancelled
        before.

        Raises:
            QueryStopped: The query has stopped; its plans go on when it is started again.
            PlanLogNotWritten: It is not known whether the plan is cancelled; call it again.
            UnknownPlan: The plan ended so long ago that the plan log was trimmed.
        """
        self._door.ask("cancel", self.id)

    def wait(self, timeout: float | None = None, progress: bool = True) -> Self:
        """Waits until the plan is done; returns at once if it is.

        Any number of threads may wait. A plan moves only as the query runs batches. If none has
        been planned for two seconds, the bar says `no batches`; the error when the time is up says
        so, too, unless the query is one of another session. In a function of the query's own sink
        it waits for itself, without end if there is no `timeout`.

        Args:
            timeout: Seconds; None for no limit. 0 looks once.
            progress: Whether to draw a bar of moves, on the terminal (standard error) or in the
                notebook. A log file gets none.

        Returns:
            This plan.

        Raises:
            PlanTimeout: The time is up. The plan goes on.
            PlanCancelled: It was cancelled, here or elsewhere.
            PlanFailed: There was no room for some of its moves, or it could not go on.
            QueryStopped: The query has ended before the plan was seen done.
            UnknownPlan: See the class.
            WrongType: `timeout` is not a number.
        """
        time_up = deadline(timeout)
        planned: int | None = None
        planned_at = time.monotonic()
        with tqdm(
            total=self._last["moves"],
            desc=f"Plan {self.id}",
            bar_format=_BAR,
            disable=not (progress and _can_draw()),
        ) as bar:
            row = self._row()
            while True:
                idle = row["planned_batch"] == planned and not self._door.is_in_batch()
                planned = row["planned_batch"]
                if not idle:
                    planned_at = time.monotonic()
                waits = row["status"] not in _FINAL and time.monotonic() - planned_at > _IDLE_S
                bar.set_postfix_str("no batches" if waits else _standing(row), refresh=False)
                bar.n = row["moves_done"]
                bar.refresh()
                if row["status"] in _FINAL:
                    return self._ended(row)
                left = time_up - time.monotonic()
                if left <= 0:
                    raise PlanTimeout(self._timed_out(row, idle, timeout))
                self._last = row = self._door.awaited(self.id, left)

    def __repr__(self) -> str:
        row, note = self._seen()
        how = f"{row['strategy']}, {row['mode']}"
        return f"Plan({row['id']}: {_standing(row, note)}, {_done(row)}, {how})"

    def _repr_html_(self) -> str:
        row, note = self._seen()
        return _html.table(
            f"Plan {row['id']}",
            [],
            [
                ("status", row["status"] + note),
                ("moves", f"{row['moves_done']} of {row['moves']}"),
                ("steps", f"{row['steps_done']} of {row['steps']}"),
                ("batches left", f"at least {row['batches_left']}"),
                ("strategy", row["strategy"]),
                ("mode", row["mode"]),
                ("batches", ", ".join(map(str, row["batches"]))),
            ],
        )

    def _row(self) -> dict[str, Any]:
        if self._last["status"] not in _FINAL:
            self._last = self._door.ask("plan", self.id)
        return self._last

    def _seen(self) -> tuple[dict[str, Any], str]:
        """The newest row that can be had, and a note if it may be old: printing never fails."""
        try:
            return self._row(), ""
        except QueryStopped:
            return self._last, " when the query stopped"
        except MegaphoneError:
            return self._last, " when last seen"

    def _ended(self, row: dict[str, Any]) -> Self:
        if row["status"] == "cancelled":
            raise PlanCancelled(
                f"Plan {self.id} was cancelled after {_done(row)}, which stay; submit another for "
                "the rest."
            )
        if row["status"] == "failed":
            raise PlanFailed(
                f"Plan {self.id} failed after {_done(row)}, which stay. {row['reason']}"
            )
        return self

    def _timed_out(self, row: dict[str, Any], idle: bool, timeout: float | None) -> str:
        why = (
            "; the query is not planning any batches, for it has no new data or waits for its "
            "trigger"
            if idle
            else ""
        )
        state = f"it is {row['status']}, {_done(row)}{why}"
        waits = f" {row['reason']}" if row["reason"] else ""
        return f"Plan {self.id} was not done after {timeout} s: {state}. It goes on.{waits}"


def _can_draw() -> bool:
    """Whether a bar is seen: in a notebook, or on a terminal."""
    # PySpark imports ipykernel wherever it is installed; a kernel that runs has its application.
    return "ipykernel.kernelapp" in sys.modules or sys.stderr.isatty()


def _standing(row: dict[str, Any], note: str = "") -> str:
    left = row["batches_left"]
    batches = "batch" if left == 1 else "batches"
    return f"{row['status']}{note}" + (f", at least {left} {batches} left" if left else "")


def _done(row: dict[str, Any]) -> str:
    moves, steps = row["moves"], row["steps"]
    return f"{row['moves_done']} of {moves} moves in {row['steps_done']} of {steps} steps"
