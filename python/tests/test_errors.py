# SPDX-License-Identifier: Apache-2.0
"""Errors that the state of a query, a session or the plugin gives: class, condition and
sentence.
"""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark_megaphone import Megaphone, __version__, _jvm, conf, errors
from testkit.back_ends import BOTH_IN_THE_LONG_RUN
from testkit.in_process import STOCK

if TYPE_CHECKING:
    from testkit.in_process import InProcessQuery, MakeQuery


@BOTH_IN_THE_LONG_RUN
def test_a_second_plan_waits_for_the_first(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3)
    with pytest.raises(errors.OverlappingPlan) as caught:
        counting.megaphone.move({0: 1})
    assert str(caught.value) == (
        f"Plan {plan.id} is still open and concerns the same bins; wait for it, or cancel it first."
    )
    plan.cancel()
    assert counting.megaphone.move({0: 1}).status == "submitted"


@BOTH_IN_THE_LONG_RUN
def test_a_query_that_has_no_batch_yet(start: MakeQuery) -> None:
    with pytest.raises(errors.QueryNotStarted) as caught:
        start().megaphone.rescale(3)
    assert str(caught.value) == (
        "The query has not planned a batch with state yet, because it waits for data or for its "
        "trigger, so there is nothing to move; ask again after its first batch."
    )


@BOTH_IN_THE_LONG_RUN
def test_a_query_without_state(start: MakeQuery) -> None:
    counting = start(lambda rows: rows.selectExpr("k", "1L as count")).run()
    with pytest.raises(errors.NoBinnedState) as caught:
        counting.megaphone.bins()
    assert str(caught.value) == (
        f"The query with run id {counting.running.runId} has no state on the binned state store: "
        "it has no stateful operator, or has not run a batch yet; ask again after its first "
        "batch, or ask about a query with state."
    )


@BOTH_IN_THE_LONG_RUN
def test_a_query_on_another_provider(start: MakeQuery) -> None:
    counting = start(**{"spark.sql.streaming.stateStore.providerClass": STOCK}).run()
    with pytest.raises(errors.NoBinnedState) as caught:
        counting.megaphone.rescale(3)
    assert str(caught.value) == (
        f"The query with run id {counting.running.runId} keeps its state on {STOCK}, from which "
        "it cannot be moved: the checkpoint was started with that provider, or the configuration "
        "names it; to move state, start the query from a new checkpoint with the binned state "
        "store."
    )


@BOTH_IN_THE_LONG_RUN
def test_state_over_a_single_partition(start: MakeQuery) -> None:
    def total(rows: DataFrame) -> DataFrame:
        return rows.groupBy().count().selectExpr("'all' as k", "count")

    counting = start(total).run()
    sentence = (
        "The state of operator 0 is in a single partition, as that of a global aggregate or a "
        "limit is, and cannot be moved; name another operator."
    )
    for operator in (None, 0):
        with pytest.raises(errors.NotMovable) as caught:
            counting.megaphone.rescale(3, operator=operator)
        assert str(caught.value) == sentence


@BOTH_IN_THE_LONG_RUN
def test_a_session_whose_configuration_cannot_be(start: MakeQuery) -> None:
    counting = start(**{"spark.megaphone.transfer.mode": "later"}).run()
    with pytest.raises(errors.InvalidConfiguration) as caught:
        counting.megaphone.rescale(3)
    assert str(caught.value) == (
        "spark.megaphone.transfer.mode is set to 'later', which is invalid: "
        "There is no transfer mode 'later', only direct, prepared, replicated, on-demand; choose "
        "one of these."
    )
    assert counting.megaphone.rescale(3, mode="direct").mode == "direct"


@BOTH_IN_THE_LONG_RUN
def test_a_plan_log_to_which_another_driver_writes(counting: InProcessQuery) -> None:
    log = counting.checkpoint / "megaphone" / "log"
    last = max(int(file.name) for file in log.iterdir() if file.name.isdigit())
    shutil.copy(log / str(last), log / str(last + 1))
    with pytest.raises(errors.PlanLogNotWritten) as caught:
        counting.megaphone.rescale(3)
    assert "plan log" in str(caught.value)


@BOTH_IN_THE_LONG_RUN
def test_a_query_that_has_stopped(counting: InProcessQuery) -> None:
    megaphone = counting.megaphone
    counting.stop()
    sentence = (
        f"The query with run id {counting.running.runId} is not running; start it, and create a "
        "new handle for it."
    )
    for ask in (
        megaphone.bins,
        megaphone.plans,
        megaphone.plot,
        lambda: megaphone.rescale(3),
        lambda: Megaphone(counting.running).workers(),
    ):
        with pytest.raises(errors.QueryStopped) as caught:
            ask()
        assert str(caught.value) == sentence


@BOTH_IN_THE_LONG_RUN
def test_a_query_that_died_at_its_first_batch_says_of_what(start: MakeQuery) -> None:
    counting = start(**{conf.BINS: "many"})
    with pytest.raises(StreamingQueryException):
        counting.run()
    with pytest.raises(errors.QueryStopped) as caught:
        counting.megaphone.rescale(3)
    assert (
        "spark.megaphone.bins is set to 'many', which is invalid: a power of two from 1 to 65536 "
        "is needed, for example 1024. Mend that, start it, and create a new handle for it."
    ) in str(caught.value)


def test_a_session_that_has_stopped(
    counting: InProcessQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    megaphone = counting.megaphone
    monkeypatch.setattr(
        SparkContext, "_active_spark_context", None
    )  # as SparkContext.stop leaves it
    for ask in (megaphone.bins, lambda: Megaphone(counting.running)):
        with pytest.raises(errors.QueryStopped) as caught:
            ask()
        assert str(caught.value) == (
            "The Spark session of the query has stopped, and the query with it; start both, and "
            "make a new handle."
        )


def test_a_jar_of_another_version(
    counting: InProcessQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jvm, "__version__", "99.0.0")
    with pytest.raises(errors.VersionMismatch) as caught:
        Megaphone(counting.running)
    assert str(caught.value) == (
        f"The session has the jar of spark-megaphone {__version__}, but the Python package is "
        f"99.0.0; use the same version of both, which spark_megaphone.configure does."
    )


def test_what_is_no_query() -> None:
    with pytest.raises(errors.WrongType) as caught:
        Megaphone("query")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "The query is of type str, but a StreamingQuery is needed: what start() returned, or one "
        "of spark.streams.active."
    )


def test_a_call_that_the_plugin_does_not_have(counting: InProcessQuery) -> None:
    with pytest.raises(errors.MegaphoneError) as caught:
        counting.megaphone._door.ask("nothing")
    assert type(caught.value) is errors.MegaphoneError
    assert str(caught.value).startswith("The plugin does not understand the call:")


@pytest.mark.usefixtures("counting")
def test_an_error_without_a_name_keeps_the_words_of_the_jvm() -> None:
    no_run: Any = SimpleNamespace(runId="none")
    with pytest.raises(errors.MegaphoneError) as caught:
        _jvm.JvmDoor(no_run).ask("bins")
    assert type(caught.value) is errors.MegaphoneError
    assert "Invalid UUID string: none" in str(caught.value)


def test_a_condition_without_a_class_is_still_carried() -> None:
    error = errors.error_of("NEW_CONDITION", "A sentence.")
    assert (type(error), error.condition, str(error)) == (
        errors.MegaphoneError,
        "NEW_CONDITION",
        "A sentence.",
    )
    assert errors.MegaphoneError.condition == "UNCLASSIFIED"
