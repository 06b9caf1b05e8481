# SPDX-License-Identifier: Apache-2.0
"""What a plan says of itself, how it is waited for and cancelled, and what is left when its query
ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark_megaphone import Plan, errors
from testkit.back_ends import BOTH_IN_THE_LONG_RUN
from testkit.waiting import until

if TYPE_CHECKING:
    from testkit.in_process import InProcessQuery


def in_thread(body: Callable[[], Any]) -> Callable[[], Any]:
    """Runs it beside the test; what comes back waits for its result, or raises what it raised."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((body(), None))
        except errors.MegaphoneError as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(30)
        assert outcome, "it has not ended"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return result


@BOTH_IN_THE_LONG_RUN
def test_a_plan_goes_through_its_statuses(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3, strategy="batched(7)")
    assert plan.batches_left == 3
    seen = [(plan.status, plan.progress)]

    def is_done() -> bool:
        seen.append((plan.status, plan.progress))
        return seen[-1][0] == "done"

    counting.run_until(is_done, "the plan is done")
    assert [status for i, (status, _) in enumerate(seen) if i == 0 or seen[i - 1][0] != status] == [
        "submitted",
        "preparing",
        "running",
        "done",
    ]
    progress = [value for _, value in seen]
    assert progress == sorted(progress)
    assert (progress[0], progress[-1]) == (0.0, 1.0)
    assert plan.batches_left == 0


@BOTH_IN_THE_LONG_RUN
def test_a_plan_is_done_when_its_last_batch_is_also_if_no_other_follows(
    counting: InProcessQuery,
) -> None:
    plan = counting.megaphone.move({0: 1}, strategy="all-at-once", mode="direct")
    counting.run_until(lambda: plan.progress == 1, "all bins have moved")
    assert plan.status == "done"
    assert plan.steps[0].batch == counting.input.batches - 1


@BOTH_IN_THE_LONG_RUN
def test_waiting_returns_the_plan_when_it_is_done_and_draws_its_moves(
    counting: InProcessQuery, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    plan = counting.megaphone.rescale(3, strategy="batched(11)")
    waited = in_thread(plan.wait)
    drawn: list[str] = []

    def is_drawn() -> bool:
        drawn.append(capsys.readouterr().err)
        return "at least 2 batches left" in "".join(drawn)

    until(is_drawn, "the bar is drawn")
    counting.finish(plan)
    assert waited() is plan
    bar = "".join([*drawn, capsys.readouterr().err])
    assert f"Plan {plan.id}" in bar
    assert bar.rstrip().splitlines()[-1].endswith(", done")
    assert "21 of 21 moves" in bar
    assert plan.wait(timeout=0) is plan


@BOTH_IN_THE_LONG_RUN
def test_waiting_without_a_bar_draws_nothing(
    counting: InProcessQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = counting.megaphone.rescale(3)
    with pytest.raises(errors.PlanTimeout):
        plan.wait(timeout=0, progress=False)
    assert capsys.readouterr().err == ""


def test_waiting_draws_nothing_into_a_file(
    counting: InProcessQuery, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))  # as PySpark imports it
    plan = counting.megaphone.rescale(3)
    with pytest.raises(errors.PlanTimeout):
        plan.wait(timeout=0)
    assert capsys.readouterr().err == ""


@BOTH_IN_THE_LONG_RUN
def test_waiting_while_no_batch_is_planned_says_so(
    counting: InProcessQuery, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("spark_megaphone.plan._IDLE_S", 0.1)
    plan = counting.megaphone.rescale(3)
    with pytest.raises(errors.PlanTimeout) as caught:
        plan.wait(timeout=0.5)
    assert str(caught.value) == (
        f"Plan {plan.id} was not done after 0.5 s: it is submitted, 0 of 21 moves in 0 of 11 "
        "steps; the query is not planning any batches, for it has no new data or waits for its "
        "trigger. It goes on."
    )
    assert isinstance(caught.value, TimeoutError)
    assert ", no batches" in capsys.readouterr().err


@pytest.mark.parametrize("timeout", [True, "1", float("nan")])
def test_a_timeout_is_a_number(counting: InProcessQuery, timeout: Any) -> None:
    plan = counting.megaphone.rescale(3)
    with pytest.raises(
        errors.WrongType, match=r"timeout is .*, but a number of seconds is needed, or None\."
    ):
        plan.wait(timeout=timeout)


@BOTH_IN_THE_LONG_RUN
def test_a_plan_that_is_cancelled_keeps_what_has_taken_effect(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3, strategy="batched(7)")
    counting.run_until(lambda: plan.progress > 0, "some bins have moved")
    counting.megaphone.cancel(plan)
    counting.megaphone.cancel(plan.id)
    plan.cancel()
    assert plan.status == "cancelled"
    with pytest.raises(errors.PlanCancelled) as caught:
        plan.wait(timeout=1, progress=False)
    assert str(caught.value) == (
        f"Plan {plan.id} was cancelled after 7 of 21 moves in 1 of 3 steps, which stay; "
        "submit another for the rest."
    )
    counting.run(2)
    assert len(counting.megaphone.workers()) == 3
    counting.finish(counting.megaphone.rescale(2, strategy="all-at-once"))
    counting.check()


def test_a_plan_that_could_not_go_on_tells_why() -> None:
    row = {"id": "p", "status": "failed", "moves": 21, "moves_done": 7, "steps": 3, "steps_done": 1}
    row |= {"batches_left": 0}
    nobody: Any = None  # what has ended asks nobody
    plan = Plan(nobody, row | {"planned_batch": 9, "reason": "Executor 1 has no room for it."})
    with pytest.raises(errors.PlanFailed) as caught:
        plan.wait(progress=False)
    assert str(caught.value) == (
        "Plan p failed after 7 of 21 moves in 1 of 3 steps, which stay. Executor 1 has no room "
        "for it."
    )


@BOTH_IN_THE_LONG_RUN
def test_waiting_ends_when_another_thread_cancels(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3)
    waited = in_thread(lambda: plan.wait(progress=False))
    counting.megaphone.cancel(plan)
    with pytest.raises(errors.PlanCancelled):
        waited()


def test_a_plan_that_failed_says_so(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3)
    failed = Plan(
        plan._door, plan._last | {"status": "failed"}
    )  # which no plan of this version does
    with pytest.raises(
        errors.PlanFailed, match=r"failed after 0 of 21 moves in 0 of 11 steps, which stay"
    ):
        failed.wait(progress=False)


@BOTH_IN_THE_LONG_RUN
def test_waiting_ends_when_the_query_is_stopped(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3)
    waited = in_thread(lambda: plan.wait(progress=False))
    counting.stop()
    with pytest.raises(errors.QueryStopped) as caught:
        waited()
    assert caught.value.__cause__ is None
    with pytest.raises(errors.QueryStopped):
        plan.wait(progress=False)
    with pytest.raises(errors.QueryStopped):
        plan.cancel()


def poisoned(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
    raise RuntimeError("poisoned")


def test_waiting_ends_with_the_query_that_fails_and_tells_why(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3)
    waited = in_thread(lambda: plan.wait(progress=False))
    counting.each = poisoned
    with pytest.raises(StreamingQueryException):
        counting.run()
    with pytest.raises(errors.QueryStopped) as caught:
        waited()
    assert isinstance(caught.value.__cause__, StreamingQueryException)
    assert "poisoned" in str(caught.value.__cause__)
    sentence = str(caught.value)
    assert sentence.startswith(f"The query with run id {counting.running.runId} has failed: ")
    assert sentence.endswith(" Mend that, start it, and create a new handle for it.")
    assert "\n" not in sentence


@BOTH_IN_THE_LONG_RUN
def test_a_plan_that_has_ended_is_known_after_the_query_too(counting: InProcessQuery) -> None:
    plan = counting.megaphone.move({0: 1})
    counting.finish(plan)
    counting.stop()
    assert (plan.status, plan.progress, plan.wait(timeout=0)) == ("done", 1.0, plan)


@BOTH_IN_THE_LONG_RUN
def test_a_plan_prints_itself(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3, strategy="batched(7)", mode="direct")
    assert (
        repr(plan)
        == f"Plan({plan.id}: submitted, at least 3 batches left, 0 of 21 moves in 0 of 3 steps, "
        "batched(7), direct)"
    )
    html = plan._repr_html_()
    assert html.startswith(f"<table><caption>Plan {plan.id}</caption>")
    assert "<tr><td>moves</td><td>0 of 21</td></tr>" in html
    assert "<tr><td>strategy</td><td>batched(7)</td></tr>" in html
    counting.stop()
    stopped = "submitted when the query stopped"
    assert (
        repr(plan)
        == f"Plan({plan.id}: {stopped}, at least 3 batches left, 0 of 21 moves in 0 of 3 steps, "
        "batched(7), direct)"
    )
    assert f"<td>{stopped}</td>" in plan._repr_html_()
