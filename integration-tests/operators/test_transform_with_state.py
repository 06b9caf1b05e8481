# SPDX-License-Identifier: Apache-2.0
"""`transformWithState` from Python moves between executors with all that it keeps; no row is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from testkit.answers import check_rows
from testkit.in_process import DATA_ONLY, MakeQuery
from testkit.processors import runner, seen_and_told

HAS_EXECUTORS = True
OUTPUT = "k long, n long, listed long, mapped long, is_last boolean"
HOUR_MS = 3_600_000


def visits(*, with_pandas: bool, unseen_ms: int) -> StatefulProcessor:
    """Counts a key's rows in a value, a list and a map.

    It gives the counts out, and once more when the key has not been seen for so long: then it
    starts anew.

    Defined in a function, so that it travels to Python's workers by value.
    """

    seen, told = seen_and_told(with_pandas=with_pandas)

    class Visits(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", "n long")
            self.values = handle.getListState("values", "v long")
            self.by_value = handle.getMapState("by_value", "v long", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            new = seen(rows)
            known = self.count.get()[0] if self.count.exists() else 0
            self.count.update((known + len(new),))
            self.values.appendList([(int(row.v),) for row in new])
            for row in new:
                value = (int(row.v),)
                before = self.by_value.getValue(value)[0] if self.by_value.containsKey(value) else 0
                self.by_value.updateValue(value, (before + 1,))
            for due in list(self.handle.listTimers()):
                self.handle.deleteTimer(due)
            self.handle.registerTimer(int(max(row.t for row in new).timestamp() * 1000) + unseen_ms)
            yield self.told(key, is_last=False)

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            yield self.told(key, is_last=True)
            self.count.clear()
            self.values.clear()
            self.by_value.clear()

        def told(self, key: Any, *, is_last: bool) -> Any:
            listed = sum(1 for _ in self.values.get())
            mapped = sum(n for (n,) in self.by_value.values())
            return told(
                k=key[0], n=self.count.get()[0], listed=listed, mapped=mapped, is_last=is_last
            )

        def close(self) -> None: ...

    return Visits()


def visited(*, with_pandas: bool, unseen_ms: int) -> Any:
    def shape(rows: DataFrame) -> DataFrame:
        groups = rows.withWatermark("t", "0 seconds").groupBy("k")
        run = runner(groups, with_pandas=with_pandas)
        processor = visits(with_pandas=with_pandas, unseen_ms=unseen_ms)
        return run(processor, OUTPUT, "append", "EventTime")

    return shape


def counts(rows: DataFrame) -> DataFrame:
    n = f.count("*")
    return rows.groupBy("k").agg(n.alias("n"), n.alias("listed"), n.alias("mapped"))


@pytest.mark.slow
@pytest.mark.parametrize("with_pandas", [False, True])
@pytest.mark.parametrize("format", [1, 2])
def test_values_lists_maps_and_timers_move(
    make_query: MakeQuery, with_pandas: bool, format: int
) -> None:
    shape = visited(with_pandas=with_pandas, unseen_ms=5_000)
    query = make_query(shape, mode="append", format=format, **DATA_ONLY).up_and_down()
    query.check_given_in_each_move(lambda row: row[-1])
    query.flush()
    ended: dict[int, tuple[int, ...]] = {}
    for k, *counted, is_last in (row for rows in query.given.values() for row in rows):
        if is_last:
            before = ended.get(k, (0, 0, 0))
            ended[k] = tuple(a + b for a, b in zip(before, counted, strict=True))
    check_rows([(k, *counted) for k, counted in ended.items()], query.answer(counts))


def test_each_variable_is_read_by_its_name_after_a_move(make_query: MakeQuery) -> None:
    query = make_query(visited(with_pandas=False, unseen_ms=HOUR_MS), mode="append").up_and_down()
    expected = query.answer(counts)
    query.stop()

    def rows(*columns: str, **options: str) -> list[tuple[Any, ...]]:
        reader = query.spark.read.format("statestore")
        state = reader.options(**options).load(str(query.checkpoint))
        return [tuple(row) for row in state.selectExpr(*columns).collect()]

    check_rows(rows("key.k", "value.n", stateVarName="count"), [row[:2] for row in expected])
    listed = rows("key.k", "list_element.v", stateVarName="values")
    check_rows(listed, query.answer(lambda rows: rows.select("k", "v")))
    mapped = rows("key.k", "user_map_key.v", "user_map_value.n", stateVarName="by_value")
    check_rows(mapped, query.answer(lambda rows: rows.groupBy("k", "v").count()))
    timers = rows("key.k", readRegisteredTimers="true")
    check_rows(timers, [row[:1] for row in expected])
