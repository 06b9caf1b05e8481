# SPDX-License-Identifier: Apache-2.0
"""Each operator that moves is moved between executors, and no row is wrong; others stay, or are
refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_megaphone.errors import NotMovable
from testkit.answers import check_rows
from testkit.folders import fresh
from testkit.in_process import UP, InProcessQuery, MakeQuery
from testkit.input import FEW_ROWS
from testkit.shapes import DATA_ONLY, met, sessions

if TYPE_CHECKING:
    import pandas as pd

    from testkit.shapes import Shape

KEYS = FEW_ROWS.keys
HAS_EXECUTORS = True
slow = pytest.mark.slow
# Checkpoint formats: in both of them each operator moves in both modes; in the short run in one.
LATE_1 = [pytest.param(1, marks=slow), 2]
LATE_2 = [1, pytest.param(2, marks=slow)]


def totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(
        f.count("*").alias("n"), f.sum("v").alias("s"), f.max("t").alias("t")
    )


def windows(rows: DataFrame) -> DataFrame:
    window = f.window("t", "20 seconds", "10 seconds")
    counts = rows.withWatermark("t", "10 seconds").groupBy(window, f.expr("k % 40 as g")).count()
    return counts.select("window.start", "g", "count")


def keys_seen(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k"]).select("k")


def distinct_then_totals(rows: DataFrame) -> DataFrame:
    """Two groups of operators: the exchange of the second stands between them."""
    return (
        rows.dropDuplicates(["k", "v"]).groupBy(f.expr("k % 10 as g")).agg(f.count("*").alias("n"))
    )


def first_times(rows: DataFrame) -> DataFrame:
    """One group of two operators: no exchange stands between them."""
    return rows.dropDuplicates(["k", "v"]).repartition("k").groupBy("k").agg(f.sum("v").alias("s"))


def seen_then_counted(rows: DataFrame) -> DataFrame:
    return rows.dropDuplicates(["k"]).groupBy("k").count()


@pytest.mark.parametrize("format", LATE_1)
def test_an_aggregation_in_update_mode_moves(make_query: MakeQuery, format: int) -> None:
    make_query(totals, format=format).up_and_down().check()


@pytest.mark.parametrize("format", LATE_2)
def test_an_aggregation_in_complete_mode_moves(make_query: MakeQuery, format: int) -> None:
    make_query(totals, mode="complete", format=format).up_and_down().check()


@pytest.mark.parametrize("format", LATE_1)
def test_an_aggregation_in_append_mode_moves_and_gives_out_each_window_once(
    make_query: MakeQuery, format: int
) -> None:
    query = make_query(windows, mode="append", format=format, **DATA_ONLY).up_and_down()
    query.check_given_in_each_move()
    query.flush().check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_windows_in_update_mode_move_and_are_dropped_behind_the_watermark(
    make_query: MakeQuery, format: int
) -> None:
    query = make_query(windows, format=format).up_and_down().flush()
    query.check(keys=2)
    # What is left are the windows of the last rows, which are there for their time.
    assert query.running.lastProgress is not None
    assert query.running.lastProgress.stateOperators[0].numRowsTotal <= 2


@pytest.mark.parametrize("format", LATE_1)
@pytest.mark.parametrize(
    ("shape", "mode", "operators"),
    [
        pytest.param(keys_seen, "append", 1, id="dropDuplicates"),
        pytest.param(distinct_then_totals, "update", 2, id="two operators", marks=slow),
        pytest.param(
            first_times, "update", 2, id="two operators over an exchange by the user", marks=slow
        ),
        pytest.param(
            seen_then_counted, "update", 1, id="two operators with no exchange between them"
        ),
    ],
)
def test_duplicates_are_dropped_and_counted_across_moves(
    make_query: MakeQuery, shape: Shape, mode: str, operators: int, format: int
) -> None:
    query = make_query(shape, mode=mode, format=format).up_and_down()
    assert len(query.workers()) == operators
    query.check()


@slow
@pytest.mark.parametrize("format", [1, 2])
def test_duplicates_are_forgotten_behind_the_watermark_across_moves(
    make_query: MakeQuery, format: int
) -> None:
    def by_time(rows: DataFrame) -> DataFrame:
        return rows.withWatermark("t", "10 seconds").select("k", "t").dropDuplicates(["k", "t"])

    query = make_query(by_time, mode="append", format=format).up_and_down()
    query.flush().check()
    assert query.running.lastProgress is not None
    assert query.running.lastProgress.stateOperators[0].numRowsTotal <= 2


@pytest.mark.parametrize("format", LATE_2)
def test_duplicates_within_the_watermark_are_dropped_across_moves(
    make_query: MakeQuery, format: int
) -> None:
    """Keys expire in each batch, and are new again, once."""

    def within(rows: DataFrame) -> DataFrame:
        return rows.withWatermark("t", "5 seconds").dropDuplicatesWithinWatermark(["k"]).select("k")

    query = make_query(within, mode="append", format=format, **DATA_ONLY).up_and_down()
    query.check_given_in_each_move()
    query.flush().run(2)
    given = query.given_out()
    assert len(given) > 2 * KEYS, "few keys expired"
    check_rows(given, query.on_stock())


@pytest.mark.parametrize("format", LATE_1)
@pytest.mark.parametrize("is_by_clock", [False, pytest.param(True, marks=slow)])
def test_apply_in_pandas_with_state_moves_with_its_timeouts(
    make_query: MakeQuery, is_by_clock: bool, format: int
) -> None:
    """Each key is counted until it was not seen for five seconds, or in a batch; some are due in
    each.
    """
    timeout = (
        GroupStateTimeout.ProcessingTimeTimeout
        if is_by_clock
        else GroupStateTimeout.EventTimeTimeout
    )

    def count(
        key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        import pandas

        (known,) = state.get if state.exists else (0,)
        if state.hasTimedOut:
            state.remove()
            yield pandas.DataFrame({"k": [key[0]], "n": [known], "is_last": [True]})
        else:
            for frame in frames:
                known += len(frame)
                if is_by_clock:
                    state.setTimeoutDuration(1)
                else:
                    state.setTimeoutTimestamp(int(frame["t"].max().timestamp() * 1000) + 5_000)
            state.update((known,))
            yield pandas.DataFrame({"k": [key[0]], "n": [known], "is_last": [False]})

    def counted(rows: DataFrame) -> DataFrame:
        return (
            rows.withWatermark("t", "0 seconds")
            .groupBy("k")
            .applyInPandasWithState(
                count,
                "k long, n long, is_last boolean",
                "n long",
                "update",
                timeout,
            )
        )

    query = make_query(counted, format=format, **DATA_ONLY).up_and_down()
    query.check_given_in_each_move(lambda row: row[-1])
    query.flush()
    ended: Counter[int] = Counter()
    for k, n, is_last in (row for rows in query.given.values() for row in rows):
        ended[k] += n if is_last else 0
    check_rows(list(ended.items()), query.answer(lambda rows: rows.groupBy("k").count()))


@pytest.mark.parametrize("format", LATE_1)
def test_sessions_move_while_they_are_open_and_are_given_out_once(
    make_query: MakeQuery, format: int
) -> None:
    query = make_query(sessions, mode="append", format=format, **DATA_ONLY).up_and_down()
    query.check_given_in_each_move()
    query.flush().check()


@pytest.mark.parametrize("format", LATE_2)
def test_sessions_whose_gap_a_python_function_gives_move(
    make_query: MakeQuery, format: int
) -> None:
    def by_key(rows: DataFrame) -> DataFrame:
        gap = f.udf(lambda k: f"{15 + k % 3 * 10} seconds", "string")
        double = f.udf(lambda v: v * 2, "long")
        timed = rows.withWatermark("t", "10 seconds").groupBy(f.session_window("t", gap("k")), "k")
        return timed.agg(f.sum(double("v")).alias("s")).select("session_window.*", "k", "s")

    make_query(by_key, mode="append", format=format).up_and_down().flush().check()


@pytest.mark.parametrize(
    ("how", "format"),
    [
        ("full_outer", 2),
        *(
            pytest.param(how, format, marks=pytest.mark.slow)
            for how, format in [("full_outer", 1)]
            + [
                (how, format)
                for how in ("inner", "left_outer", "right_outer", "left_semi")
                for format in (1, 2)
            ]
        ),
    ],
)
def test_a_join_of_two_streams_moves_and_gives_out_each_row_once(
    make_query: MakeQuery, how: str, format: int
) -> None:
    """Rows without a partner are given out as the watermark passes them: in each batch with a
    move.
    """
    query = make_query(met(how), mode="append", format=format, **DATA_ONLY).up_and_down()
    assert state_format_of(query) == 2
    if how.endswith("outer"):
        query.check_given_in_each_move(lambda row: None in row)
    query.flush().check()


def state_format_of(query: InProcessQuery) -> int:
    """The format that its joins keep their state in, as its first batch has written down."""
    _, batch, *_ = (query.checkpoint / "offsets" / "0").read_text().splitlines()
    return int(json.loads(batch)["conf"]["spark.sql.streaming.join.stateFormatVersion"])


@slow
@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize(
    ("how", "state_format"),
    [("inner", 1)]
    + [
        (how, n)
        for n in (3, 4)
        for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
    ],
)
def test_a_join_moves_in_whichever_format_spark_keeps_its_state(
    make_query: MakeQuery, how: str, state_format: int, format: int
) -> None:
    """From 4.3 on Spark takes format 2 instead of a later one, except for its own RocksDB
    provider.
    """
    asked = {"spark.sql.streaming.join.stateFormatVersion": str(state_format)}
    query = make_query(met(how), mode="append", format=format, **asked, **DATA_ONLY)
    is_4_3 = query.spark.version.startswith("4.3")
    # Whatever the provider: Spark begins no join in the first format any more, and with 4.2 none in
    # the last.
    refused = {1: "Unsupported schema writer version: 1"} | (
        {} if is_4_3 else {4: "under development"}
    )
    if state_format in refused:
        with pytest.raises(StreamingQueryException, match=refused[state_format]):
            query.start().run()
        return
    query.up_and_down()
    assert state_format_of(query) == (2 if is_4_3 else state_format)
    query.flush().check()


@pytest.mark.parametrize("format", LATE_1)
def test_the_state_of_a_join_is_read_by_side_after_it_has_moved(
    make_query: MakeQuery, format: int
) -> None:
    def forever(rows: DataFrame) -> DataFrame:
        return rows.where("v < 2").join(
            rows.where("v > 0").select(f.col("k").alias("k2")), f.expr("k = k2")
        )

    query = make_query(forever, mode="append", format=format).up_and_down()
    query.check(keys=4)
    reader = query.spark.read.format("statestore")
    for side, kept in (("left", "v < 2"), ("right", "v > 0")):
        state = reader.option("joinSide", side).load(str(query.checkpoint)).select("value.*")
        column = state.columns[0]
        expected = query.answer(lambda rows, kept=kept: rows.where(kept).select("k"))  # type: ignore[misc]
        check_rows([tuple(row) for row in state.select(column).collect()], expected)


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_a_global_aggregate_runs_and_stays(make_query: MakeQuery, mode: str) -> None:
    def overall(rows: DataFrame) -> DataFrame:
        return rows.groupBy().agg(f.count("*").alias("n"), f.sum("v").alias("s"))

    query = make_query(overall, mode=mode).start().run()
    with pytest.raises(NotMovable, match="single partition"):
        query.megaphone.rescale(UP)
    query.run(2)
    check_rows([query.given[max(query.given)][-1]], query.answer())


def test_a_limit_runs_and_stays(make_query: MakeQuery) -> None:
    query = make_query(lambda rows: rows.select("k").limit(150), mode="append").start().run()
    with pytest.raises(NotMovable, match="single partition"):
        query.megaphone.rescale(UP)
    query.run(2)
    given = query.given_out()
    assert len(given) == 150
    assert {k for (k,) in given} <= set(range(KEYS))


# ---- what is refused ----


OWN_PROVIDER = (
    r"set spark\.sql\.streaming\.stateStore\.providerClass to one of Spark's own state store "
    r"providers before the query is started\."
)


@pytest.mark.parametrize(
    ("shape", "settings", "sentence"),
    [
        pytest.param(
            totals,
            {"spark.sql.streaming.stateStore.unloadOnCommit": "true"},
            f"unloadOnCommit drops the state after each batch.*set it to false, or {OWN_PROVIDER}",
            id="unloadOnCommit",
        ),
    ],
)
def test_what_is_not_supported_is_refused_before_anything_is_written(
    make_query: MakeQuery, shape: Shape, settings: dict[str, str], sentence: str
) -> None:
    query = make_query(shape, **settings).write().start()
    with pytest.raises(StreamingQueryException, match=sentence):
        query.running.processAllAvailable()
    files = [
        str(file.relative_to(query.checkpoint))
        for file in query.checkpoint.rglob("*")
        if file.is_file()
    ]
    written = [
        file
        for file in files
        if file.startswith(("commits", "megaphone")) or file.endswith(".delta")
    ]
    assert written == []
    assert query.given == {}


def test_a_continuous_trigger_is_refused(spark: SparkSession, work: Path) -> None:
    """Spark itself takes no state there."""
    rows = spark.readStream.format("rate").load().dropDuplicates(["value"])
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(fresh(work)))
    with pytest.raises(AnalysisException, match=r"(?i)continuous"):
        writer.trigger(continuous="1 second").start()
