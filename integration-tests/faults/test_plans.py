# SPDX-License-Identifier: Apache-2.0
"""Plans in odd company: of another plan, another operator, another query, and of batches without
data.
"""

from collections import Counter

import pytest

from testkit.driver_process import DriverProcess, Refused
from testkit.faults import Faults
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.shapes import WINDOW_SECONDS


def test_of_two_plans_submitted_together_the_second_is_refused(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    first = query.submit("rescale", 3, strategy="all-at-once")
    with pytest.raises(Refused, match=f"OverlappingPlan: Plan {first} is still open") as refused:
        query.submit("rescale", 4, strategy="all-at-once")
    assert "cancel it" in str(refused.value)
    assert [row["id"] for row in query.table("plans")] == [first], (
        "what was refused has left a trace"
    )
    query.finish(first)
    query.finish(query.submit("rescale", 1, strategy="all-at-once"))
    query.stop_and_check()


@pytest.mark.slow
def test_steps_take_effect_at_batches_without_data_and_windows_close_once(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    """Each file moves the watermark on, so a batch without data follows each batch and evicts."""
    query = make_remote_query(shared, kind="windows").spread()
    plan = query.submit("rescale", 3, strategy="batched(300)", mode="direct")
    batches = query.finish(plan)["batches"]
    empty = _without_data(query)
    assert set(batches) & empty, (
        f"no step of {batches} was at a batch without data, {sorted(empty)}"
    )
    query.run(2)
    plan = query.submit("rescale", 2, strategy="batched(300)", mode="prepared")
    query.finish(plan)
    query.run(3)
    query.stop()
    rows = query.given_out()
    twice = [key for key, count in Counter((w, k) for w, k, _, _ in rows).items() if count > 1]
    assert not twice, f"{len(twice)} windows closed twice, such as {twice[0]}"
    expected = {(w, k): (n, s) for w, k, n, s in query.answer()}
    found = {(w, k): (n, s) for w, k, n, s in rows}
    assert all(expected[key] == value for key, value in found.items())
    newest = max(w for w, _ in expected)
    closed = {key for key in expected if key[0] + 2 * WINDOW_SECONDS <= newest}
    assert closed
    assert closed <= found.keys(), "windows are missing"
    left = shared.call("state_count", checkpoint=str(query.checkpoint), operator=0)
    assert left == len(expected) - len(found), (
        "what was not evicted is in the state, and nothing else"
    )


def test_of_two_operators_one_moves_and_the_other_stays(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, kind="distinct").spread()
    operators = sorted({row["operator"] for row in query.table("workers")})
    assert len(operators) == 2
    totals, distinct = operators
    before = query.bins_of(0, operator=distinct)
    query.finish(query.submit("rescale", 3, strategy="all-at-once", operator=totals))
    workers = Counter(row["operator"] for row in query.table("workers"))
    assert workers == {totals: 3, distinct: 2}
    assert query.bins_of(0, operator=distinct) == before
    assert {row["operator"] for row in query.table("migrations") if row["bins_in"]} == {totals}
    query.finish(query.submit("rescale", 4, strategy="all-at-once"))
    workers = Counter(row["operator"] for row in query.table("workers"))
    assert workers == {totals: 4, distinct: 4}
    query.stop_and_check(operator=totals)
    seen = shared.call("state_count", checkpoint=str(query.checkpoint), operator=distinct)
    assert seen == query.input.batches * query.input.pattern.rows


@pytest.mark.slow
@pytest.mark.parametrize("point", ["step-opened", "step-committed"])
def test_the_stores_of_a_join_move_together_though_an_executor_dies_between_two_commits(
    point: str, shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    """Of a worker's four stores one has committed, or none, when its executor dies."""
    query = make_remote_query(shared, kind="joined")
    query.spread().run(3)
    faults.arm(point)
    query.finish(query.move_half(0, 1))
    faults.wait(point)
    query.run(2)
    query.stop()
    query.check()
    assert len(query.given_out()) > query.input.pattern.keys


def test_two_queries_of_one_session_do_not_meet(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    """The same operator number, the same bins, the same moment; also when one of them stops in
    mid-plan.
    """
    one, two = (
        make_remote_query(shared, name="one").spread(),
        make_remote_query(shared, name="two", format=1).spread(),
    )
    plan = one.submit("rescale", 3, strategy="batched(120)", mode="prepared")
    other = two.submit("rescale", 1, strategy="all-at-once", mode="direct")
    one.run()
    two.finish(other)
    assert _workers(one) <= 3
    assert _workers(two) == 1
    assert [row["id"] for row in two.table("plans")] == [other]
    with pytest.raises(LookupError, match=f"no plan {plan}"):
        two.plan(plan)
    two.stop_and_check()
    one.finish(plan, within=12)
    assert _workers(one) == 3
    one.stop_and_check()


def _workers(query: RemoteQuery) -> int:
    return len({row["worker"] for row in query.table("workers")})


def _without_data(query: RemoteQuery) -> set[int]:
    """Batches whose offsets equal those of the batch before."""
    offsets = {}
    for file in (query.checkpoint / "offsets").iterdir():
        if file.name.isdigit():
            offsets[int(file.name)] = file.read_text().splitlines()[-1]
    return {b for b in offsets if b - 1 in offsets and offsets[b] == offsets[b - 1]}
