# SPDX-License-Identifier: Apache-2.0
"""Where bins were at earlier batches, put together from where they are now and the steps since."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_megaphone._history import (
    Row,
    Taken,
    durations,
    first_owners,
    history,
    shares,
    steps_taken,
)

Moves = dict[int, int]


def bins(owners: Moves, operator: int = 0) -> list[Row]:
    return [{"operator": operator, "bin": bin_, "worker": of} for bin_, of in owners.items()]


def step(
    batch: int | None, moves: Moves, *, operator: int = 0, stayed: tuple[int, ...] = ()
) -> Row:
    return {
        "operator": operator,
        "batch": batch,
        "bins": list(moves),
        "targets": list(moves.values()),
        "stayed": list(stayed),
    }


def progress(batch: int, ms: int = 500, *, ran: bool = True) -> dict[str, Any]:
    took = {"triggerExecution": ms} | ({"addBatch": ms - 1} if ran else {})
    return {"batchId": batch, "durationMs": took}


def round_robin(bins: int, workers: int) -> Moves:
    return {bin_: bin_ % workers for bin_ in range(bins)}


def test_a_bin_was_where_the_step_before_had_moved_it() -> None:
    now = round_robin(8, 2) | {6: 0, 7: 2}
    taken = [Taken(0, 3, {6: 2, 7: 2}), Taken(0, 5, {6: 0})]
    assert shares(now, taken, range(2, 7)) == [
        {0: 4, 1: 4},
        {0: 3, 1: 3, 2: 2},
        {0: 3, 1: 3, 2: 2},
        {0: 4, 1: 3, 2: 1},
        {0: 4, 1: 3, 2: 1},
    ]


def test_steps_before_the_first_batch_count() -> None:
    now = round_robin(4, 2) | {2: 1}
    assert shares(now, [Taken(0, 3, {2: 1})], range(10, 12)) == [{0: 1, 1: 3}] * 2


def test_a_step_that_was_taken_after_the_bins_were_asked_for_counts_from_its_batch_on() -> None:
    asked = round_robin(4, 2)
    assert shares(asked, [Taken(0, 3, {2: 1})], range(2, 4)) == [{0: 2, 1: 2}, {0: 1, 1: 3}]


@given(
    workers=st.integers(1, 40),
    plans=st.lists(st.dictionaries(st.integers(0, 31), st.integers(0, 39), max_size=32)),
)
def test_any_steps_lead_back_to_where_the_query_began(workers: int, plans: list[Moves]) -> None:
    """What the steps leave in doubt is told as not known; nothing wrong is told."""
    first = round_robin(32, workers)
    now = dict(first)
    taken, expected = [], [Counter(now.values())]
    for batch, asked in enumerate(plans, 1):
        moves = {bin_: to for bin_, to in asked.items() if now[bin_] != to}
        now |= moves
        taken.append(Taken(0, batch, moves))
        expected.append(Counter(now.values()))
    moved = {bin_ for one in taken for bin_ in one.moves}
    told = first_owners(now, taken)
    assert all(told[bin_] == first[bin_] for bin_ in first if bin_ not in moved)
    assert all(worker in (first[bin_], None) for bin_, worker in told.items())
    if None not in told.values():
        assert shares(now, taken, range(len(plans) + 1)) == expected
    for known, whole in zip(shares(now, taken, range(len(plans) + 1)), expected, strict=True):
        assert known.total() == whole.total()
        assert all(known[worker] <= bins for worker, bins in whole.items())


def test_a_rescale_of_a_query_that_began_evenly_leaves_no_doubt() -> None:
    for workers in range(1, 17):
        first = round_robin(64, workers)
        moves = dict.fromkeys(range(63, 63 - 64 // (workers + 1), -1), workers)
        told = first_owners(first | moves, [Taken(0, 5, moves)])
        assert told == first


def test_a_worker_that_was_emptied_leaves_no_doubt() -> None:
    first = round_robin(16, 2)
    moves = {bin_: 0 for bin_ in first if bin_ % 2}  # one worker would fit, but nothing would move
    assert first_owners(first | moves, [Taken(0, 5, moves)]) == first


def test_two_beginnings_that_fit_leave_the_bins_that_moved_unknown() -> None:
    moves = {2: 5, 3: 5}
    told = first_owners({0: 0, 1: 1} | moves, [Taken(0, 1, moves)])  # from 2 workers, 3 or more
    assert told == {0: 0, 1: 1, 2: None, 3: None}


def test_what_a_trimmed_plan_log_does_not_tell_is_not_known() -> None:
    now = {0: 3, 1: 3, 2: 2, 3: 1}  # from no first table
    assert shares(now, [Taken(0, 7, {2: 2})], range(6, 8)) == [
        {3: 2, 1: 1, None: 1},
        {3: 2, 2: 1, 1: 1},
    ]


def test_a_bin_that_stayed_and_a_step_not_taken_move_nothing() -> None:
    owners = round_robin(4, 2) | {0: 1}
    steps = [step(4, {0: 1, 2: 1}, stayed=(2,)), step(None, {3: 0})]
    found = history(bins(owners), steps, [progress(3), progress(4)])
    assert found.steps == [Taken(0, 4, {0: 1})]
    assert found.shares == {0: [{0: 2, 1: 2}, {0: 1, 1: 3}]}


def test_steps_are_in_the_order_of_their_batches() -> None:
    rows = [step(3, {0: 1}), step(5, {0: 0}), step(4, {0: 1}, operator=3), step(6, {1: 1})]
    assert [one.batch for one in steps_taken(rows)] == [3, 4, 5, 6]


def test_each_group_of_operators_has_its_own_bins() -> None:
    rows = bins(round_robin(4, 2) | {0: 1}, operator=3) + bins(round_robin(4, 1))
    found = history(rows, [step(1, {0: 1}, operator=3)], [progress(0), progress(1)])
    assert found.shares == {0: [{0: 4}, {0: 4}], 3: [{0: 2, 1: 2}, {0: 1, 1: 3}]}
    assert list(found.shares) == [0, 3]


def test_durations_are_of_batches_that_ran() -> None:
    told = [progress(4, 1500), progress(5, 250), progress(6, 20, ran=False)]
    assert durations(told) == {4: 1.5, 5: 0.25}


def test_batches_are_those_with_progress() -> None:
    steps = [step(2, {0: 1}), step(7, {0: 0})]
    found = history(bins(round_robin(4, 2)), steps, [progress(6), progress(8)])
    assert found.batches == range(6, 9)
    assert found.durations_s == {6: 0.5, 8: 0.5}
    assert [one.batch for one in found.steps] == [7]


def test_of_more_than_a_thousand_batches_the_newest_count() -> None:
    many = [progress(batch) for batch in range(2500)]
    found = history(bins(round_robin(4, 2)), [step(7, {0: 1})], many)
    assert found.batches == range(1500, 2500)
    assert list(found.durations_s or []) == list(found.batches)
    assert found.steps == []
    assert history([], [step(7, {0: 1})], None, 2499).batches == range(1500, 2500)


@pytest.mark.parametrize(
    ("steps", "newest", "expected"),
    [
        ([step(2, {0: 1}), step(7, {0: 0})], 9, range(1, 10)),
        ([step(2, {0: 1})], None, range(1, 3)),
        ([step(0, {0: 1})], 3, range(4)),
        ([], 9, range(9, 10)),
        ([], None, range(1)),
    ],
)
def test_without_progress_batches_begin_before_the_first_step(
    steps: list[Row], newest: int | None, expected: range
) -> None:
    nothing: list[Row] = []
    for told in (None, nothing):
        found = history(bins(round_robin(4, 2)), steps, told, newest)
        assert found.batches == expected
        assert len(found.shares[0]) == len(expected)
    assert history(bins({}), [], None).durations_s is None
