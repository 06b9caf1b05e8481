# SPDX-License-Identifier: Apache-2.0
"""What tests of steps on demand share: bins that stay incomplete, and how much of them has come."""

from dataclasses import replace

from testkit.input import MANY_ROWS
from testkit.running_query import RunningQuery
from testkit.waiting import until

# The rest of what a step took does not come while it is looked at.
NO_REST = {"spark.megaphone.transfer.maxBytesPerSecond": "1"}
# Batches of some keys of `MANY_ROWS`: after them most of what a step took is still elsewhere.
SOME_KEYS = replace(MANY_ROWS, rows=20)

NOTICE_BATCHES = 1  # so many batches before a step on demand it is announced, at least


def takes_effect(query: RunningQuery, plan: str) -> None:
    """Runs batches until all steps of a plan are sealed; bins may be incomplete then."""
    query.run_until(
        lambda: query.plan(plan)["moves_done"] == query.plan(plan)["moves"], "it takes effect"
    )


def takes_effect_for_one_row(query: RunningQuery, plan: str) -> int:
    """Has a plan of one step take effect in a batch of one row, after others of all.

    Each batch must have rows. Returns how many sub-bins that batch brought: those that were due,
    but for a few.
    """
    pattern = query.input.pattern
    query.run(NOTICE_BATCHES)
    query.input.pattern = replace(pattern, rows=1)
    takes_effect(query, plan)
    query.input.pattern = pattern
    (batch,) = query.plan(plan)["batches"]
    return brought(query, batch)


def until_complete(query: RunningQuery, plan: str) -> None:
    """The rest comes, and no batch is needed for it."""
    until(lambda: query.plan(plan)["status"] == "done", "all has come")


def incomplete(query: RunningQuery) -> int:
    """How many bins were incomplete after the newest batch of their workers."""
    return sum(row["bins_incomplete"] for row in query.table("workers"))


def left_incomplete(query: RunningQuery, source: int = 0, target: int = 1) -> str:
    """Moves every other bin of a worker with keys that come in few of the next batches; the plan.

    The query has some batches of all keys first.
    """
    query.run(3)
    query.input.pattern = SOME_KEYS
    plan = query.move_half(source, target, mode="on-demand")
    takes_effect(query, plan)
    assert incomplete(query) > 0
    return plan


def from_checkpoint(query: RunningQuery) -> int:
    """How many bins were read from the checkpoint after the run's first batch."""
    return sum(row["bins_from_checkpoint"] for row in query.migrations_after(0))


def bytes_from_checkpoint(query: RunningQuery) -> int:
    """Bytes read from the checkpoint after the first batch, for tasks and for the rest."""
    return sum(row["bytes_from_checkpoint"] for row in query.migrations_after(0))


def brought(query: RunningQuery, batch: int | None = None) -> int:
    """How many sub-bins came as batches needed them, or as one of them did."""
    rows = query.table("migrations")
    return sum(row["sub_bins"] for row in rows if batch in (None, row["batch"]))
