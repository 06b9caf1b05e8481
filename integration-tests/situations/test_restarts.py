# SPDX-License-Identifier: Apache-2.0
"""Queries that are stopped and started while state moves, and several of them at once."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

from testkit.answers import rows_of
from testkit.in_process import InProcessQuery, MakeQuery
from testkit.shapes import totals

UP, DOWN = 3, 1
BOTH_FORMATS = pytest.mark.parametrize(
    "format", [pytest.param(1, marks=pytest.mark.slow), 2], ids=["v1", "v2"]
)


def test_a_query_is_stopped_and_started_again_in_the_same_process(make_query: MakeQuery) -> None:
    query = make_query(totals).start().run(2)
    plan = query.megaphone.rescale(UP, strategy="batched(15)")
    query.run(2)
    query.stop()
    query.start().run()
    query.finish(plan.id, within=30)
    query.stop()
    query.start().run()
    assert query.workers() == {0: UP}
    query.check()


def test_two_queries_in_two_sessions_move_at_once(make_query: MakeQuery) -> None:
    one = make_query(totals, format=1).start()
    other = make_query(totals, format=2, mode="complete", **{"spark.megaphone.bins": 16}).start()
    for query in (one, other):
        query.run(2)
    plans = [(one, one.megaphone.rescale(UP)), (other, other.megaphone.rescale(DOWN))]
    for _ in range(12):
        for query in (one, other):
            query.write()
        for query in (one, other):
            query.settle()
        if all(plan.status == "done" for _, plan in plans):
            break
    assert (one.workers(), other.workers()) == ({0: UP}, {0: DOWN})
    assert (len(one.megaphone.bins()), len(other.megaphone.bins())) == (64, 16)
    for query in (one, other):
        query.run()
        query.check()


@BOTH_FORMATS
def test_a_plan_spans_runs_that_take_what_is_available_now(
    make_query: MakeQuery, format: int
) -> None:
    plans: list[str] = []

    def ask(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        query.given[batch] = rows_of(rows)
        if batch == 1:
            plans.append(query.megaphone.rescale(UP, strategy="batched(22)").id)
        if batch > 1:
            statuses.append(query.megaphone.plan(plans[0]).status)

    statuses: list[str] = []
    query = make_query(totals, each=ask, format=format)
    query.trigger = {"availableNow": True}
    runs = 0
    while not statuses or statuses[-1] != "done":
        runs += 1
        assert runs < 15, f"the plan did not end: {statuses}"
        query.write()
        query.start().running.awaitTermination()
    assert runs > 3, "the plan did not span the runs"
    assert len(list((query.checkpoint / "state" / "0").glob("[0-9]"))) == UP
    query.check()
