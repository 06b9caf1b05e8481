# SPDX-License-Identifier: Apache-2.0
"""What moves a query's state, and that the state is right after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import DataFrame

from spark_megaphone import Megaphone, Step
from testkit.back_ends import BOTH, BOTH_IN_THE_LONG_RUN

if TYPE_CHECKING:
    from testkit.in_process import InProcessQuery, MakeQuery

BINS = 64


def bins_by_worker(megaphone: Megaphone) -> dict[int, int]:
    return {row["worker"]: row["bins"] for row in megaphone.workers().to_pylist()}


def worker_by_bin(megaphone: Megaphone) -> dict[int, int]:
    return {row["bin"]: row["worker"] for row in megaphone.bins().to_pylist()}


@BOTH_IN_THE_LONG_RUN
@pytest.mark.parametrize("mode", ["direct", "prepared"])
def test_the_state_is_the_batch_answer_after_more_workers_and_fewer(
    counting: InProcessQuery, mode: str
) -> None:
    megaphone = counting.megaphone
    assert bins_by_worker(megaphone) == {0: 32, 1: 32}
    for workers, bins in [(3, {0: 22, 1: 21, 2: 21}), (1, {0: 64})]:
        plan = megaphone.rescale(workers, strategy="batched(16)", mode=mode)
        counting.finish(plan)
        counting.run()
        assert bins_by_worker(megaphone) == bins
        assert sum(megaphone.workers()["keys"].to_pylist()) == len(counting.answer())
    counting.check()


@BOTH
def test_bins_move_to_the_workers_named(counting: InProcessQuery) -> None:
    megaphone = counting.megaphone
    before = worker_by_bin(megaphone)
    moves = {bin_: 1 - before[bin_] for bin_ in (3, 8, 63)}
    plan = megaphone.move(moves, strategy="all-at-once")
    counting.finish(plan)
    counting.run()
    assert worker_by_bin(megaphone) == before | moves
    counting.check()


@BOTH_IN_THE_LONG_RUN
def test_moves_may_be_pairs_of_numpy_numbers(counting: InProcessQuery) -> None:
    pairs = list(zip(np.array([2, 4]), np.array([1, 1]), strict=True))
    (step,) = counting.megaphone.move(pairs, strategy="all-at-once").steps
    assert step.moves == {2: 1, 4: 1}


@BOTH
def test_steps_made_by_hand_take_effect_as_they_are_in_order(counting: InProcessQuery) -> None:
    megaphone = counting.megaphone
    before = worker_by_bin(megaphone)
    plan = megaphone.submit([{0: 1, 1: 0}, Step({0: 2}, workers=3), {5: before[5]}])
    assert plan.strategy == "as given"
    assert [(step.moves, step.workers) for step in plan.steps] == [({0: 1, 1: 0}, 2), ({0: 2}, 3)]
    counting.finish(plan)
    counting.run()
    assert worker_by_bin(megaphone) == before | {0: 2, 1: 0}
    batches = [step.batch for step in plan.steps]
    assert None not in batches
    assert batches == sorted(set(batches), key=lambda batch: batch or 0)
    counting.check()


@BOTH_IN_THE_LONG_RUN
def test_a_strategy_cuts_steps_made_by_hand(counting: InProcessQuery) -> None:
    plan = counting.megaphone.submit([{0: 1, 2: 1}, {0: 0}], strategy="fluid")
    assert sorted(tuple(step.moves.items()) for step in plan.steps) == [
        ((0, 0),),
        ((0, 1),),
        ((2, 1),),
    ]
    assert plan.strategy == "fluid"


@BOTH_IN_THE_LONG_RUN
def test_only_workers_can_change(counting: InProcessQuery) -> None:
    plan = counting.megaphone.submit([Step(workers=4)])
    counting.finish(plan)
    assert plan.progress == 1.0
    assert bins_by_worker(counting.megaphone) == {0: 32, 1: 32, 2: 0, 3: 0}


@BOTH_IN_THE_LONG_RUN
def test_a_plan_of_one_operator_leaves_the_others(start: MakeQuery) -> None:
    def twice(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["k"]).selectExpr("k % 10 as k").groupBy("k").count()

    counting = start(twice).run()
    plan = counting.megaphone.rescale(3, operator=1, strategy="all-at-once")
    counting.finish(plan)
    counting.run()
    workers = counting.megaphone.workers().to_pylist()
    assert {step.operator for step in plan.steps} == {1}
    assert [sum(row["operator"] == operator for row in workers) for operator in (0, 1)] == [2, 3]
    counting.check()


@BOTH
def test_a_plan_goes_on_when_the_query_is_started_again(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3, strategy="batched(7)")
    counting.run(3)
    assert 0 < plan.progress < 1
    counting.stop()
    counting.start()
    counting.run()
    again = counting.megaphone.plan(plan.id)
    counting.finish(again)
    assert bins_by_worker(counting.megaphone) == {0: 22, 1: 21, 2: 21}
    counting.check()
    assert len(counting.megaphone.bins()) == BINS


@BOTH_IN_THE_LONG_RUN
def test_a_plan_may_be_submitted_as_soon_as_the_query_is_started(
    start: MakeQuery,
) -> None:
    """The first batch is waited for, as long as the query is on its way to it."""
    counting = start()
    counting.stop()
    counting.write()
    counting.start()
    plan = counting.megaphone.rescale(3)
    counting.settle()
    counting.finish(plan)
    assert bins_by_worker(counting.megaphone) == {0: 22, 1: 21, 2: 21}
    counting.check()
