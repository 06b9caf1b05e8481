# SPDX-License-Identifier: Apache-2.0
"""Every error that a query or a plan gives: its class, its condition and its sentence."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from spark_megaphone import Megaphone, Step, __version__, _jvm, errors

if TYPE_CHECKING:
    from tests.conftest import Counting

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets keys of the session for the queries started in the test."""
    changed = []

    def put(key: str, value: str) -> None:
        changed.append((key, spark.conf.get(key, None)))
        spark.conf.set(key, value)

    yield put
    for key, before in changed:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


# The handle as Any: many of these calls are wrong by their types already.
Case = tuple[str, type[errors.MegaphoneError], Callable[[Any], Any], str]

REFUSED: list[Case] = [
    (
        "no worker",
        errors.InvalidWorkers,
        lambda m: m.rescale(0),
        "The number of workers is 0, but it must be from 1 to 65536; ask for one in that range.",
    ),
    (
        "too many workers",
        errors.InvalidWorkers,
        lambda m: m.rescale(2**40),
        "The number of workers is 1099511627776, but it must be from 1 to 65536; ask for one in that range.",
    ),
    (
        "a float of workers",
        errors.WrongType,
        lambda m: m.rescale(2.0),
        "workers is 2.0, of type float, but a whole number is needed.",
    ),
    (
        "a bool of workers",
        errors.WrongType,
        lambda m: m.rescale(True),
        "workers is True, of type bool, but a whole number is needed.",
    ),
    (
        "the same workers",
        errors.EmptyPlan,
        lambda m: m.rescale(2),
        "The plan would move nothing: every bin is already where it is wanted; ask for another "
        "number of workers or "
        "other bins.",
    ),
    (
        "an unknown strategy",
        errors.UnknownStrategy,
        lambda m: m.rescale(3, strategy="quick"),
        "There is no strategy 'quick', only all-at-once, fluid, batched, batched(<bins per step>), "
        "optimized; choose "
        "one of these.",
    ),
    (
        "a strategy of no size",
        errors.InvalidBatchSize,
        lambda m: m.rescale(3, strategy="batched(0)"),
        "The strategy batched cannot move 0 bins a step, but a whole number from 1 to 65536; give "
        "one in that range, "
        "or leave it out.",
    ),
    (
        "a strategy that is no text",
        errors.WrongType,
        lambda m: m.rescale(3, strategy=7),
        "strategy is 7, of type int, but a str is needed.",
    ),
    (
        "an unknown mode",
        errors.UnknownMode,
        lambda m: m.rescale(3, mode="later"),
        "There is no transfer mode 'later', only direct, prepared; choose one of these.",
    ),
    (
        "an unknown operator",
        errors.UnknownOperator,
        lambda m: m.rescale(3, operator=4),
        "The query has no stateful operator 4, only 0; name one of these, or none for all.",
    ),
    (
        "a negative operator",
        errors.UnknownOperator,
        lambda m: m.rescale(3, operator=-1),
        "There is no stateful operator -1, for they are numbered from 0; name one that workers() "
        "shows, or none for "
        "all.",
    ),
    (
        "no moves",
        errors.EmptyPlan,
        lambda m: m.move({}),
        "The plan asks for nothing, but it needs at least one bin or worker to move; name one.",
    ),
    (
        "a move to where the bin is",
        errors.EmptyPlan,
        lambda m: m.move({0: 0}),
        "The plan would move nothing: every bin is already where it is wanted; ask for another "
        "number of workers or "
        "other bins.",
    ),
    (
        "an unknown bin",
        errors.UnknownBin,
        lambda m: m.move({64: 0}),
        "There is no bin 64, only bins 0 to 63; name one of these.",
    ),
    (
        "a negative bin",
        errors.UnknownBin,
        lambda m: m.move({-1: 0}),
        "There is no bin -1, only bins 0 to 63; name one of these.",
    ),
    (
        "a bin beyond any number of bins",
        errors.UnknownBin,
        lambda m: m.move({2**31: 0}),
        "There is no bin 2147483648, only bins 0 to 65535 at most; name one of these.",
    ),
    (
        "an unknown worker",
        errors.UnknownWorker,
        lambda m: m.move({0: 2}),
        "There is no worker 2, only workers 0 to 1; name one of these, or rescale first.",
    ),
    (
        "a worker beyond any number of workers",
        errors.UnknownWorker,
        lambda m: m.move({0: -(2**31)}),
        "There is no worker -2147483648, only workers 0 to 65535 at most; name one of these.",
    ),
    (
        "a bin twice",
        errors.DuplicateBin,
        lambda m: m.move([(3, 0), (3, 1)]),
        "Bin 3 is moved twice, but a bin has one target; keep one of its moves.",
    ),
    (
        "moves of no kind",
        errors.WrongType,
        lambda m: m.move(3),
        "The moves are 3, but {bin: worker} or pairs of bin and worker are needed.",
    ),
    (
        "moves that are no pairs",
        errors.WrongType,
        lambda m: m.move([1, 2]),
        "The moves are [1, 2], but {bin: worker} or pairs of bin and worker are needed.",
    ),
    (
        "a bin that is a bool",
        errors.WrongType,
        lambda m: m.move({True: 1}),
        "A bin is True, of type bool, but a whole number is needed.",
    ),
    (
        "a worker that is text",
        errors.WrongType,
        lambda m: m.move({1: "1"}),
        "A worker is '1', of type str, but a whole number is needed.",
    ),
    (
        "no steps",
        errors.EmptyPlan,
        lambda m: m.submit([]),
        "The plan has no steps, but it needs at least one; add a step of {bin: worker}.",
    ),
    (
        "an empty step",
        errors.EmptyPlan,
        lambda m: m.submit([{0: 1}, {}]),
        "The plan asks for nothing, but it needs at least one bin or worker to move; name one.",
    ),
    (
        "steps that change nothing",
        errors.EmptyPlan,
        lambda m: m.submit([{0: 0}, Step(workers=2)]),
        "The plan would move nothing: every bin is already where it is wanted; ask for another "
        "number of workers or "
        "other bins.",
    ),
    (
        "moves instead of steps",
        errors.WrongType,
        lambda m: m.submit({0: 1}),
        "The plan is {0: 1}, but a list of steps is needed: [{bin: worker}, …].",
    ),
    (
        "a worker that a step takes away",
        errors.WorkerNotEmpty,
        lambda m: m.submit([Step({1: 0}, workers=1)]),
        "Worker 1 still owns bin 3, but with 1 workers the last is 0; move its bins away, or keep "
        "more workers.",
    ),
    (
        "a worker that only a later step makes",
        errors.UnknownWorker,
        lambda m: m.submit([{0: 2}, Step({2: 2}, workers=3)]),
        "There is no worker 2, only workers 0 to 1; name one of these, or rescale first.",
    ),
    (
        "a plan that is not there",
        errors.UnknownPlan,
        lambda m: m.cancel("abc"),
        "The query has no plan abc; see plans() for those it has.",
    ),
    (
        "an id that is no text",
        errors.WrongType,
        lambda m: m.plan(3),
        "id is 3, of type int, but a str is needed.",
    ),
]


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A query of which no plan is ever accepted."""
    folder = tmp_path_factory.mktemp("shared")
    rows = spark.range(100)
    rows.write.parquet(str(folder / "source"))
    stream = spark.readStream.schema("id long").parquet(str(folder / "source"))
    query = (
        stream.groupBy("id")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    yield query
    query.stop()


@pytest.mark.parametrize(("error", "ask", "sentence"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_cannot_be_is_refused(
    shared: Any, error: type[errors.MegaphoneError], ask: Callable[[Megaphone], Any], sentence: str
) -> None:
    megaphone = Megaphone(shared)
    with pytest.raises(errors.MegaphoneError) as caught:
        ask(megaphone)
    assert (type(caught.value), str(caught.value)) == (error, sentence)
    assert caught.value.condition == error.condition
    assert len(megaphone.plans()) == 0


def test_a_second_plan_waits_for_the_first(counting: Counting) -> None:
    plan = counting.megaphone.rescale(3)
    with pytest.raises(errors.OverlappingPlan) as caught:
        counting.megaphone.move({0: 1})
    assert str(caught.value) == (
        f"Plan {plan.id} is still open and concerns the same bins; wait for it, or cancel it first."
    )
    plan.cancel()
    assert counting.megaphone.move({0: 1}).status == "submitted"


def test_a_query_that_has_no_batch_yet(start: Callable[..., Counting]) -> None:
    with pytest.raises(errors.QueryNotStarted) as caught:
        start().megaphone.rescale(3)
    assert str(caught.value) == (
        "The query has not planned a batch with state yet, because it waits for data or for its trigger, "
        "so there is nothing to move; ask again after its first batch."
    )


def test_a_query_without_state(start: Callable[..., Counting]) -> None:
    counting = start(lambda rows: rows.selectExpr("k", "1L as count")).run()
    with pytest.raises(errors.NoBinnedState) as caught:
        counting.megaphone.bins()
    assert str(caught.value) == (
        f"The query with run id {counting.query.runId} has no state on the binned state store: it has no "
        "stateful operator, or has not run a batch yet."
    )


def test_a_query_on_another_provider(
    start: Callable[..., Counting], settings: Callable[[str, str], None]
) -> None:
    provider = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    settings("spark.sql.streaming.stateStore.providerClass", provider)
    counting = start().run()
    with pytest.raises(errors.NoBinnedState) as caught:
        counting.megaphone.rescale(3)
    assert str(caught.value) == (
        f"The query with run id {counting.query.runId} keeps its state on {provider}, on which it runs on "
        "unmoved: the checkpoint was begun with it, or the configuration names it; to move state, start the "
        "query from a new checkpoint with the binned state store."
    )


def test_state_over_a_single_partition(start: Callable[..., Counting]) -> None:
    def total(rows: DataFrame) -> DataFrame:
        return rows.groupBy().count().selectExpr("'all' as k", "count")

    counting = start(total).run()
    sentence = (
        "The state of operator 0 is over a single partition, as a global aggregate's or a limit's "
        "is, and stays "
        "where it is; name another operator."
    )
    for operator in (None, 0):
        with pytest.raises(errors.NotMovable) as caught:
            counting.megaphone.rescale(3, operator=operator)
        assert str(caught.value) == sentence


def test_a_session_whose_configuration_cannot_be(
    start: Callable[..., Counting], settings: Callable[[str, str], None]
) -> None:
    settings("spark.megaphone.transfer.mode", "later")
    counting = start().run()
    with pytest.raises(errors.InvalidConfiguration) as caught:
        counting.megaphone.rescale(3)
    assert str(caught.value) == (
        "The configuration spark.megaphone.transfer.mode has the value 'later', which cannot be: "
        "There is no transfer mode 'later', only direct, prepared; choose one of these."
    )
    assert counting.megaphone.rescale(3, mode="direct").mode == "direct"


def test_a_plan_log_to_which_another_driver_writes(counting: Counting) -> None:
    log = counting.checkpoint / "megaphone" / "log"
    last = max(int(file.name) for file in log.iterdir() if file.name.isdigit())
    shutil.copy(log / str(last), log / str(last + 1))
    with pytest.raises(errors.PlanLogNotWritten) as caught:
        counting.megaphone.rescale(3)
    assert "plan log" in str(caught.value)


def test_a_query_that_has_stopped(counting: Counting) -> None:
    megaphone = counting.megaphone
    counting.query.stop()
    sentence = (
        f"The query with run id {counting.query.runId} is not running; start it, and make a new handle on it."
    )
    for ask in (
        megaphone.bins,
        megaphone.plans,
        lambda: megaphone.rescale(3),
        lambda: Megaphone(counting.query).workers(),
    ):
        with pytest.raises(errors.QueryStopped) as caught:
            ask()
        assert str(caught.value) == sentence


def test_a_session_that_has_stopped(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    megaphone = counting.megaphone
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)  # as SparkContext.stop leaves it
    for ask in (megaphone.bins, lambda: Megaphone(counting.query)):
        with pytest.raises(errors.QueryStopped) as caught:
            ask()
        assert str(caught.value) == (
            "The Spark session of the query has stopped, and the query with it; start both, and make a "
            "new handle."
        )


def test_a_jar_of_another_version(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jvm, "__version__", "99.0.0")
    with pytest.raises(errors.VersionMismatch) as caught:
        Megaphone(counting.query)
    assert str(caught.value) == (
        f"The session has the jar of spark-megaphone {__version__}, but the Python package is "
        f"99.0.0; use the same "
        "version of both, which spark_megaphone.configure does."
    )


def test_what_is_no_query() -> None:
    with pytest.raises(errors.WrongType) as caught:
        Megaphone("query")  # type: ignore[arg-type]
    assert str(caught.value) == "The query is of type str, but a StreamingQuery is needed."


def test_a_query_of_spark_connect() -> None:
    from pyspark.sql.connect.streaming.query import StreamingQuery

    with pytest.raises(errors.ConnectNotSupported) as caught:
        Megaphone(StreamingQuery.__new__(StreamingQuery))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "The query runs through Spark Connect, from which there is no way to the plugin yet; make "
        "the handle where "
        "the session is a classic one, in the driver's own Python process."
    )


def test_a_call_that_the_plugin_does_not_have(shared: Any) -> None:
    with pytest.raises(errors.MegaphoneError) as caught:
        Megaphone(shared)._door.ask("nothing")
    assert type(caught.value) is errors.MegaphoneError
    assert str(caught.value).startswith("The plugin does not understand the call:")


def test_an_error_without_a_name_keeps_the_words_of_the_jvm(shared: Any) -> None:
    with pytest.raises(errors.MegaphoneError) as caught:
        Megaphone(shared)._door.ask("move", "{", None, None, -1)
    assert type(caught.value) is errors.MegaphoneError
    assert "JsonEOFException" in str(caught.value)


def test_a_condition_without_a_class_is_still_carried() -> None:
    error = errors.error_of("NEW_CONDITION", "A sentence.")
    assert (type(error), error.condition, str(error)) == (
        errors.MegaphoneError,
        "NEW_CONDITION",
        "A sentence.",
    )
    assert errors.MegaphoneError.condition == "UNCLASSIFIED"


def test_every_condition_of_the_jvm_has_a_class() -> None:
    main = ROOT / "jvm"
    sources = [
        main / "core/src/main/scala/io/megaphone/routing/InvalidPlanException.scala",
        main / "spark/src/main/scala/io/megaphone/control/PlanRefusedException.scala",
        main / "spark/src/main/scala/io/megaphone/control/QueryControl.scala",
        main / "spark/src/main/scala/io/megaphone/conf/MegaphoneConf.scala",
    ]
    conditions = {
        c for file in sources for c in re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', file.read_text("utf-8"))
    }
    # What only files and verbs not built yet can give.
    without = {"BINS_DIFFER", "DAMAGED_TABLE", "NO_WORKERS_LEFT"}
    assert conditions - without <= set(errors._Registry.by_condition)
    assert without <= conditions
