# SPDX-License-Identifier: Apache-2.0
"""State that expires, that is given at the start, that changes its schema or has another operator
behind it: what `transformWithState` does from Python beyond values, lists, maps and timers, across
moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from testkit.answers import check_rows
from testkit.in_process import InProcessQuery, MakeQuery
from testkit.input import FEW_ROWS, FLUSH
from testkit.processors import runner, seen_and_told
from testkit.shapes import DATA_ONLY, expiring_counts, kept_counts

HAS_EXECUTORS = True
KEYS = FEW_ROWS.keys
slow = pytest.mark.slow
with_and_without_pandas = pytest.mark.parametrize(
    "with_pandas", [pytest.param(True, id="frames"), pytest.param(False, id="rows")]
)
INITIAL = 1000  # what each key begins with


@slow
@with_and_without_pandas
@pytest.mark.parametrize("format", [1, 2])
def test_state_that_expires_is_gone_and_all_other_stays(
    make_query: MakeQuery, with_pandas: bool, format: int
) -> None:
    """What lives for a millisecond is gone in the next batch; what lives for a day is not. Timers
    by the clock are due once.
    """

    shape = expiring_counts(with_pandas=with_pandas)
    query = make_query(shape, format=format, **DATA_ONLY).up_and_down().flush()
    query.check(expected=query.answer(kept_counts))
    last = {row[0] for row in query.given[max(query.given)]}
    query.stop()
    for variable in ("gone", "gone_values", "gone_by_value"):
        assert keys_of(query, variable) <= last, f"expired keys of {variable} were not removed"
        assert len(keys_of(query, f"kept{variable[4:]}") - {FLUSH}) == KEYS


def keys_of(query: InProcessQuery, variable: str) -> set[int]:
    reader = query.spark.read.format("statestore").option("stateVarName", variable)
    return {row[0] for row in reader.load(str(query.checkpoint)).select("key.k").collect()}


def counting(schema: str = "n long", *, with_pandas: bool) -> StatefulProcessor:
    """Counts a key's rows, from the number on that the initial state gives; gives out the counts.

    A second field of the schema holds the number of the row that came last.
    """

    seen, told = seen_and_told(with_pandas=with_pandas)

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", schema)

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
            self.count.update((int(initialState.n.iloc[0] if with_pandas else initialState.n),))

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            known: tuple[Any, ...] = self.count.get() if self.count.exists() else (0,)
            n, time = known[0], None
            for row in seen(rows):
                n, time = n + 1, row.t
            is_wide = "," in schema
            had = known[1] if is_wide and len(known) > 1 else None
            self.count.update((n, n) if is_wide else (n,))
            yield told(k=key[0], n=n, t=time, had=had)

        def close(self) -> None: ...

    return Counting()


COUNTED = "k long, n long, t timestamp, had long"


def counts_of(query: InProcessQuery) -> dict[int, int]:
    """The newest count of each key."""
    rows = (row for batch in sorted(query.given) for row in query.given[batch])
    return {k: n for k, n, *_ in rows if k != FLUSH}


@slow
@with_and_without_pandas
@pytest.mark.parametrize("format", [1, 2])
def test_initial_state_moves(make_query: MakeQuery, with_pandas: bool, format: int) -> None:
    def shape(rows: DataFrame) -> DataFrame:
        initial = rows.sparkSession.range(KEYS).select(
            f.col("id").alias("k"), f.lit(INITIAL).alias("n")
        )
        run = runner(rows.groupBy("k"), with_pandas=with_pandas)
        processor = counting(with_pandas=with_pandas)
        return run(processor, COUNTED, "update", "None", initialState=initial.groupBy("k"))

    query = make_query(shape, format=format).up_and_down()
    expected = query.answer(lambda rows: rows.groupBy("k").agg(f.count("*") + INITIAL))
    assert counts_of(query) == dict(expected)


@slow
@with_and_without_pandas
@pytest.mark.parametrize("format", [1, 2])
def test_a_schema_evolves_between_two_moves(
    make_query: MakeQuery, with_pandas: bool, format: int
) -> None:
    """With a field more after a restart, rows of both schemas stand beside each other, and move."""

    def shape_with(schema: str) -> Any:
        processor = counting(schema, with_pandas=with_pandas)
        return lambda rows: runner(rows.groupBy("k"), with_pandas=with_pandas)(
            processor, COUNTED, "update", "None"
        )

    avro = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}
    query = make_query(shape_with("n long"), format=format, **avro).up_and_down()
    query.stop()
    query.shape = shape_with("n long, last long")
    before = max(query.given)
    query.up_and_down()
    assert counts_of(query) == dict(query.answer(lambda rows: rows.groupBy("k").count()))
    had: dict[int, list[int | None]] = {}
    for batch in range(before + 1, max(query.given) + 1):
        for k, n, _, last in query.given[batch]:
            had.setdefault(k, []).append(last)
            assert last is None or last < n
    firsts = {values[0] for values in had.values()}
    assert firsts == {None}, (
        "the first row of a key after the restart has what the old schema had not"
    )
    assert all(None not in values[1:] for values in had.values())


@slow
@with_and_without_pandas
@pytest.mark.parametrize("format", [1, 2])
def test_one_behind_the_other_moves(make_query: MakeQuery, with_pandas: bool, format: int) -> None:
    """What the first gives out, with its event time, goes on to the second, behind an exchange."""

    def totals() -> StatefulProcessor:
        seen, told = seen_and_told(with_pandas=with_pandas)

        class Totals(StatefulProcessor):
            def init(self, handle: Any) -> None:
                self.total = handle.getValueState("total", "n long")

            def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
                known = self.total.get()[0] if self.total.exists() else 0
                total = known + len(seen(rows))
                self.total.update((total,))
                yield told(g=key[0], n=total)

            def close(self) -> None: ...

        return Totals()

    def shape(rows: DataFrame) -> DataFrame:
        run = runner(rows.withWatermark("t", "0 seconds").groupBy("k"), with_pandas=with_pandas)
        processor = counting(with_pandas=with_pandas)
        first = run(processor, COUNTED, "append", "EventTime", eventTimeColumnName="t")
        by_group = first.withColumn("g", f.expr("k % 10")).groupBy("g")
        return runner(by_group, with_pandas=with_pandas)(
            totals(), "g long, n long", "append", "EventTime"
        )

    query = make_query(shape, mode="append", format=format).up_and_down()
    assert len(query.workers()) == 2
    # The first gives out a row for each key of a batch: the second counts these.
    batches = range(query.input.batches)
    keys = [
        set(query.answer(lambda rows: rows.select("k"), batches=slice(b, b + 1))) for b in batches
    ]
    expected: dict[int, int] = {}
    for (k,) in (key for batch in keys for key in batch):
        expected[k % 10] = expected.get(k % 10, 0) + 1
    found = {g: n for batch in sorted(query.given) for g, n in query.given[batch]}
    check_rows(list(found.items()), list(expected.items()))
