# SPDX-License-Identifier: Apache-2.0
"""Steps on demand: a batch brings the keys that it has, the rest comes later, and no row is wrong,
whoever dies or does not answer.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit import link
from testkit.driver_process import DriverProcess
from testkit.faults import DEMAND_POINTS, JAR, LENDER_POINTS, USELESS, Faults
from testkit.on_demand import (
    NO_REST,
    NOTICE_BATCHES,
    brought,
    bytes_from_checkpoint,
    from_checkpoint,
    incomplete,
    takes_effect,
    takes_effect_for_one_row,
    until_complete,
)
from testkit.placement import newest_batch, read_later, workers_by_executor
from testkit.remote import MakeRemoteQuery
from testkit.shapes import DATA_ONLY, MOVED

BATCHES = 40
SOURCE, TARGET = 0, 1
# Operators that look at all rows of their state in each batch, for what is due by time, or that ask
# for all rows and look at none.
SCANNING = (
    *("windows", "window updates", "unique", "seen", "first"),
    *("sessions", "met", "met at once", "expiring", "pandas expiring", "long visits"),
    *("long pandas visits", "scala visits", "long tallies", "scala tallies", "clock tallies"),
)
# Of these nothing is due for a minute, for a day, or ever.
RARELY_DUE = ("unique", "first", "seen")
# Of these the batch of a step asks for all that there is, even if it has one row.
ALL_AT_ONCE = ("complete",)
# Of these it asks for all, or for nearly all, unless it has one row.
SOON_COMPLETE = ("met at once", "expiring", "pandas expiring")
# Of these that batch, or the next one, asks for all even if it has one row.
ALL_COMES_SOON = (*ALL_AT_ONCE, "visited", "pandas visits", "tallied")
# A row asks for one sub-bin of each store of an operator; a join has four.
STORES_MAX = 4
# One of each family of operators.
FAMILIES = ("wide", "windows", "first", "joined", "met", "sessions", "long visits", "long tallies")
# Questions of a batch and store about what one source has: for the keys that the batch has, and for
# what is due, which each variable that expires is asked for by itself. Complete mode asks for all.
ROUND_TRIPS = dict.fromkeys(MOVED, 3) | {
    "expiring": 8,
    "pandas expiring": 8,
    "complete": 512,
}
# Questions and an answer that are no use, for each kind. What is made of an answer's bytes does not
# depend on the operator, so not each kind meets each fault of it.
NO_USE = {
    kind: (*(f"question-sent={how}" for how in USELESS), f"answer-came={USELESS[i % 3]}")
    for i, kind in enumerate(MOVED)
}
LINK_KB = 1000
# What executors ask each other for on these ports passes a narrow link.
PORT = 7400
NARROW_KB = 25  # all answers of a source to a task come in ten seconds
DEADLINE_MS = 5000
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def three(work: Path) -> Iterator[DriverProcess]:
    """A driver with three executors of one core each."""
    settings = {"spark.master": "local-cluster[3,1,1024]", "spark.jars": str(JAR)}
    driver = DriverProcess(work / "three", settings)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def linked(work: Path) -> Iterator[DriverProcess]:
    """A driver with two executors, all behind a link of `LINK_KB` a second.

    They ask each other for state on ports from `PORT` on.
    """
    if (why := link.missing()) is not None:
        pytest.skip(f"there can be no link here: {why}")
    settings = {"spark.jars": str(JAR), "spark.megaphone.transfer.port": f"{PORT}"}
    driver = DriverProcess(work / "linked", settings, link_kb=LINK_KB)
    yield driver
    driver.close()


@pytest.mark.parametrize("format", [pytest.param(1, marks=slow), 2])
def test_bins_move_on_demand_and_nothing_is_read_for_it(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    # However slow the machine is, no answer is given up.
    settings = {"spark.megaphone.transfer.tailDeadlineMs": "60000"}
    query = make_remote_query(shared, format=format, **settings).spread()
    read = bytes_from_checkpoint(query)
    for source, target in ((0, 1), (1, 0)):
        plan = query.move_half(source, target, mode="on-demand")
        takes_effect(query, plan)
        query.check()
        until_complete(query, plan)
        newest = query.run(2).settle()
        told = [row["batch"] for row in query.table("migrations")]
        assert newest - 1 in told, "the next batch tells what has come"
        assert newest not in told
    for strategy, steps in (("fluid", 4), ("optimized", 2)):
        swap = dict.fromkeys(query.bins_of(0)[:2], 1) | dict.fromkeys(query.bins_of(1)[:2], 0)
        plan = query.submit("move", swap, strategy=strategy, mode="on-demand")
        assert query.finish(plan)["steps"] == steps
    assert brought(query) > 0
    query.run(2)  # tells what came after the last step
    assert bytes_from_checkpoint(query) == read
    query.stop_and_check()
    shared.check_nothing_is_held(workers=True)


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", MOVED)
def test_every_operator_moves_on_demand(
    kind: str, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, kind=kind, format=format).spread()
    query.run(3)
    query.finish(query.move_half(0, 1, mode="on-demand"))
    assert brought(query) > 0
    asked = max(row["questions"] for row in query.table("migrations"))
    assert asked <= ROUND_TRIPS[kind], "keys are known before they are asked for"
    query.run(2)
    query.finish(query.submit("rescale", 3, mode="on-demand", strategy="all-at-once"))
    query.run(2)
    steps = query.submit("rescale", 2, mode="on-demand", strategy="batched(64)")
    query.finish(steps, within=BATCHES)
    query.run(2).flush()
    query.stop()
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", SCANNING)
def test_an_operator_that_looks_at_all_rows_leaves_those_that_are_not_due_where_they_are(
    kind: str, format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    # Without batches that have no rows, what is due goes in the next one that has some.
    settings = NO_REST | DATA_ONLY
    query = make_remote_query(shared, kind=kind, format=format, **settings).spread()
    query.run(3)
    came = []
    for source, target in ((0, 1), (1, 0)):
        plan = query.move_half(source, target, mode="on-demand")
        came.append(takes_effect_for_one_row(query, plan))
        assert incomplete(query) > 0
        # All that was there becomes due, or its keys come. Windows end in every other batch.
        query.run(8)
    assert kind in RARELY_DUE or max(came) > STORES_MAX, f"nothing was due: {came}"
    assert from_checkpoint(query) == 0
    query.flush()
    query.stop()
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("dies", ["source", "target"])
@pytest.mark.parametrize("kind", MOVED)
def test_an_executor_dies_before_the_rest_has_come(
    kind: str,
    dies: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    settings = NO_REST | (DATA_ONLY if kind in SOON_COMPLETE else {})
    query = make_remote_query(shared, kind=kind, format=format, **settings).spread()
    query.run(3)
    victim = query.executor_of(SOURCE if dies == "source" else TARGET)
    plan = query.move_half(SOURCE, TARGET, mode="on-demand")
    if kind in ALL_AT_ONCE:
        before = newest_batch(query)
        point = "question-answering" if dies == "source" else "question-asked"
        faults.arm(point)
        takes_effect(query, plan)
        assert faults.struck(point) == victim
    else:
        (takes_effect_for_one_row if kind in SOON_COMPLETE else takes_effect)(query, plan)
        assert incomplete(query) > 0
        before = newest_batch(query)
        shared.kill_executor(victim)
    query.run(3)
    of_target = [row for row in read_later(query, TARGET, before) if row["operator"] == 0]
    if kind not in ALL_AT_ONCE:  # else an attempt may have read it that fails for lost map output
        if dies == "source":
            assert sum(row["bins_from_checkpoint"] for row in of_target) > 0, "nobody can be asked"
        assert any(row["is_recovery"] for row in of_target) == (dies == "target")
    query.flush()
    query.stop()
    query.check()
    shared.wait_for_executors()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", MOVED)
def test_questions_and_answers_that_are_no_use_are_replaced_by_the_checkpoint(
    kind: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, kind=kind, format=format).spread()
    query.run(3)
    for entry, source, target in zip(NO_USE[kind], (0, 1, 0, 1), (1, 0, 1, 0), strict=True):
        before = bytes_from_checkpoint(query)
        faults.arm(entry)
        query.finish(query.move_half(source, target, mode="on-demand"), within=BATCHES)
        assert faults.struck(entry) is not None, entry
        query.run()  # tells what came after the batch before
        assert bytes_from_checkpoint(query) > before, entry
    query.flush()
    query.stop()
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("point", [*DEMAND_POINTS, *LENDER_POINTS])
def test_an_executor_dies_while_it_asks_or_answers(
    point: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, format=format).spread()
    query.run(3)
    victim = query.executor_of(0 if point in LENDER_POINTS else 1)
    faults.arm(point)
    takes_effect(query, query.move_half(0, 1, mode="on-demand"))
    query.run(3)
    assert faults.struck(point) == victim
    query.check()
    shared.wait_for_executors()
    query.run(2)
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_number_of_workers_changes_on_demand_though_a_source_dies_amid_it(
    kind: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(shared, kind=kind, format=format).spread()
    query.run(3)
    for workers in (3, 2):
        faults.arm("question-answering")
        plan = query.submit("rescale", workers, mode="on-demand", strategy="batched(32)")
        query.run_until(lambda: faults.struck("question-answering") is not None, "one is asked")
        assert query.plan(plan)["status"] == "running", "steps are still to come"
        query.finish(plan, within=BATCHES)
        assert query.workers()[0] == workers
        shared.wait_for_executors()
        query.spread()
    query.run(2).flush()
    query.stop()
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", MOVED)
def test_a_source_that_hangs_is_not_waited_for_again_and_again(
    kind: str, format: int, three: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    deadline = {"spark.megaphone.transfer.imageDeadlineMs": f"{DEADLINE_MS}"}
    settings = deadline | NO_REST | DATA_ONLY
    query = make_remote_query(three, kind=kind, format=format, **settings).spread()
    query.run(3)
    source = query.executor_of(0)
    takes_effect_for_one_row(query, query.move_half(0, 1, mode="on-demand"))
    pattern = query.input.pattern
    query.input.pattern = replace(pattern, rows=1)
    three.call("drain", executor=source, within=0.001)
    try:
        query.run()
        assert source not in workers_by_executor(query), "no task needs the source"
        is_asked = incomplete(query) > 0
        assert is_asked or kind in ALL_COMES_SOON
        newest = query.settle()
        query.input.pattern = pattern
        with three.frozen(source):
            query.run(3)
    finally:
        three.call("undrain", executor=source)
    was_read = from_checkpoint(query) > 0
    waited_ms = sum(row["wait_ms"] for row in query.migrations_after(newest))
    query.run(2).flush()  # an answer comes late, if one comes
    query.stop()
    three.kill_executor(source)  # for a minute nobody would ask it anything
    three.wait_for_executors()
    query.check()
    assert was_read == is_asked
    assert waited_ms < 2 * DEADLINE_MS, "it is waited for once, by all stores and tasks"
    assert waited_ms >= DEADLINE_MS / 2 or not is_asked


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize("kind", MOVED)
def test_answers_over_a_slow_link_are_waited_for(
    kind: str, format: int, linked: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    # Nor is an offer given up.
    settings = DATA_ONLY | {"spark.megaphone.transfer.tailDeadlineMs": "60000"}
    # All answers of a source have ten seconds together.
    narrow_kb = NARROW_KB * (4 if kind in ALL_AT_ONCE else 1)
    query = make_remote_query(linked, kind=kind, format=format, **settings).spread()
    query.run(3)
    for source, target in ((0, 1), (1, 0)):
        plan = query.move_half(source, target, mode="on-demand")
        query.run(NOTICE_BATCHES)
        with linked.narrowed(PORT, narrow_kb):
            takes_effect(query, plan)
        (batch,) = query.plan(plan)["batches"]
        came = [row for row in query.table("migrations") if row["batch"] == batch]
        # Of an offer, and of each answer that is waited for by itself, some goes ahead of the rate.
        trips = sum(row["questions"] for row in came) if kind not in ALL_AT_ONCE else 1
        ahead = (len(came) + trips) * link.NARROW_BURST_BYTES
        least_ms = (sum(row["bytes_from_peer"] for row in came) - ahead) / narrow_kb
        assert least_ms > 0, "so little may have come at once"
        assert sum(row["wait_ms"] for row in came) >= least_ms
        query.finish(plan, within=BATCHES)
    assert from_checkpoint(query) == 0
    query.run(2).flush()
    query.stop()
    query.check()
