# SPDX-License-Identifier: Apache-2.0
"""What the dice choose from: a plan, a drain, a stop, a kill, a pause, a fault."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from testkit.driver_process import Refused
from testkit.faults import (
    DEMAND_POINTS,
    DRIVER_POINTS,
    EXECUTOR_POINTS,
    LENDER_POINTS,
    STANDBY_POINTS,
    USELESS,
)

if TYPE_CHECKING:
    from soak.run import Soak

TRANSFER_FAULTS = (
    *(f"{w}={how}" for w in ("block-published", "file-pushed", "answer-came") for how in USELESS),
    "block-pulled=late",
)
DRIVER_PAUSES = tuple(f"{point}=pause" for point in DRIVER_POINTS)
TABLES = ("workers", "bins", "plans", "migrations", "relocations")
# Seconds that a drain may take; None for as many as it needs.
DRAIN_SECONDS = (None, None, 1.0)
# What may be said about an executor that another act has killed, drained or kept, or to a query
# that has just been started.
REFUSALS = {
    *("EmptyPlan", "LoadsNotKnown", "QueryNotStarted"),
    *("LastExecutor", "UnknownExecutor", "UnknownDrain"),
}


def submit(soak: Soak, dice: Random) -> None:
    """A random plan for any query, also for the one whose state cannot move."""
    soak.plans.submit(dice.choice(list(soak.fleet)), dice, soak.course.round)


def cancel(soak: Soak, dice: Random) -> None:
    """Cancels a plan."""
    soak.plans.cancel(dice)


def spread(soak: Soak, dice: Random) -> None:
    """Evens the load of the executors out, by a query's workers."""
    query = dice.choice(soak.fleet.binned)
    _place(soak, f"{query.name}: spread", lambda: query.call("spread"))


def drain(soak: Soak, dice: Random) -> None:
    """Empties an executor, or lets one that is being emptied keep its workers."""
    draining = soak.draining()
    how: dict[str, Any]
    if draining and dice.random() < 1 / 2:
        verb, how = "undrain", {"executor": dice.choice(draining)}
    elif (executor := _one_of(soak.driver.executors(), dice)) is None:
        return
    else:
        verb, how = "drain", {"executor": executor, "within": dice.choice(DRAIN_SECONDS)}
    _place(soak, f"{verb} {how}", lambda: soak.driver.call(verb, **how))


def restart(soak: Soak, dice: Random) -> None:
    """Stops a query, perhaps in the middle of a batch, and starts it again."""
    query = dice.choice(list(soak.fleet))
    soak.log(f"{query.name}: stop")
    query.write(dice.randint(0, 1)).stop()
    query.write(dice.randint(0, 2))
    soak.fleet.restart(query, soak.driver)
    query.settle()
    soak.fleet.check(query)
    soak.log(f"{query.name}: started again, right in {query.input.batches} batches")


def replace(soak: Soak, dice: Random) -> None:
    """Stops a query for good, and starts a new one of its kind."""
    old = dice.choice(list(soak.fleet))
    old.settle()
    soak.fleet.check(old)
    new = soak.fleet.replace(old, dice)
    soak.plans.left(old)
    soak.log(f"{old.name}: replaced by {new.name}")
    new.write().start(soak.driver)


def kill_executor(soak: Soak, dice: Random) -> None:
    """`kill -9` of an executor, but for the one that is watched."""
    executor = _one_of((e for e in soak.driver.executors() if e != soak.watched), dice)
    if executor is None:
        return
    soak.log(f"kill -9 of executor {executor}")
    soak.kills["executor"] += 1
    soak.driver.kill_executor(executor)


def kill_driver(soak: Soak, dice: Random) -> None:
    """`kill -9` of the driver; what is sent to it next finds that out."""
    soak.log("kill -9 of the driver")
    soak.driver.kill()


def pause_executor(soak: Soak, dice: Random) -> None:
    """An executor stands still until a query has got its batches done, or for some seconds."""
    executors = soak.driver.executors()
    executor = _one_of(executors, dice)
    if executor is None:
        return
    query, seconds = dice.choice(list(soak.fleet)), dice.uniform(1, 5)
    soak.log(f"executor {executor} stands still for up to {seconds:.1f} s")
    query.write()
    os.kill(executors[executor], signal.SIGSTOP)
    try:
        soak.driver.send("settle", name=query.name)
        is_answered = _answered(soak, seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(executors[executor], signal.SIGCONT)
    if not is_answered:
        soak.driver.answer()


def fault(soak: Soak, dice: Random) -> None:
    """Arms a fault point, and submits a plan that may reach it."""
    points = TRANSFER_FAULTS + DRIVER_PAUSES
    if soak.course.is_storm:
        points += EXECUTOR_POINTS + STANDBY_POINTS + DEMAND_POINTS + LENDER_POINTS
        points += DRIVER_POINTS
    soak.arm(dice.choice(points))
    soak.plans.submit(dice.choice(soak.fleet.binned), dice, soak.course.round)


def look(soak: Soak, dice: Random) -> None:
    """Reads the tables of a query, and those of the application."""
    query = dice.choice(soak.fleet.binned)
    for table in TABLES:
        query.table(table)
    soak.driver.call("held")


def _one_of(executors: Iterable[str], dice: Random) -> str | None:
    """One of some executors; None if they are dead already, and not replaced yet."""
    known = sorted(executors)
    return dice.choice(known) if known else None


def _place(soak: Soak, told: str, call: Callable[[], object]) -> None:
    """Has workers placed; a refusal that has a known name is counted."""
    try:
        call()
        soak.placements["done"] += 1
        soak.log(told)
    except Refused as refused:
        if refused.name not in REFUSALS:
            raise
        soak.placements[refused.name] += 1
        soak.log(f"{told}: {refused.name}")


def _answered(soak: Soak, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        soak.driver.answer(seconds)
        return True
    return False


class Act(NamedTuple):
    """Something that may be done, and how often in the storm and after it."""

    do: Callable[[Soak, Random], None]
    in_storm: int
    after: int


ACTS = (
    Act(submit, 30, 40),
    Act(cancel, 6, 6),
    Act(spread, 6, 6),
    Act(drain, 10, 10),
    Act(restart, 10, 10),
    Act(replace, 5, 5),
    Act(kill_executor, 12, 8),
    Act(kill_driver, 4, 0),
    Act(pause_executor, 8, 8),
    Act(fault, 17, 15),
    Act(look, 8, 8),
)


def drawn(dice: Random, *, is_storm: bool) -> Iterator[Act]:
    """Two or three acts of a round."""
    weights = [act.in_storm if is_storm else act.after for act in ACTS]
    yield from dice.choices(ACTS, weights, k=dice.choice((1, 2, 2, 3)))
