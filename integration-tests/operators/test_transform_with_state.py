# SPDX-License-Identifier: Apache-2.0
"""`transformWithState` from Python moves between executors with all that it keeps; no row is
wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from testkit.answers import check_rows
from testkit.in_process import MakeQuery
from testkit.shapes import DATA_ONLY, ended_visits, visit_counts, visited

HAS_EXECUTORS = True
HOUR_MS = 3_600_000


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
    check_rows(ended_visits(query.given_out()), query.answer(visit_counts))


def test_each_variable_is_read_by_its_name_after_a_move(make_query: MakeQuery) -> None:
    query = make_query(visited(with_pandas=False, unseen_ms=HOUR_MS), mode="append").up_and_down()
    expected = query.answer(visit_counts)
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
