# SPDX-License-Identifier: Apache-2.0
"""What users do with the rows of a batch inside `foreachBatch`, while state moves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from testkit.answers import check_rows, rows_of, state_of
from testkit.in_process import Each, InProcessQuery, MakeQuery
from testkit.shapes import totals

UP, DOWN = 3, 1
BOTH_FORMATS = pytest.mark.parametrize(
    "format", [pytest.param(1, marks=pytest.mark.slow), 2], ids=["v1", "v2"]
)


def run_with(make_query: MakeQuery, each: Each, **how: Any) -> InProcessQuery:
    """Runs a query through rescales up and down with that done in each batch; the answer must be
    right.
    """
    query = make_query(totals, each=each, **how).start().run(2)
    query.rescale(UP)
    query.rescale(DOWN, mode="direct")
    query.stop_and_check()
    return query


@BOTH_FORMATS
def test_two_actions_of_a_batch_see_the_same_rows(make_query: MakeQuery, format: int) -> None:
    def twice(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        query.given[batch] = rows_of(rows)
        check_rows(rows_of(rows), query.given[batch])

    run_with(make_query, twice, format=format)


@BOTH_FORMATS
def test_a_thread_pool_of_the_first_batch_runs_the_actions_of_all(
    make_query: MakeQuery, format: int
) -> None:
    pools: list[ThreadPoolExecutor] = []

    def in_threads(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        if not pools:
            pools.append(ThreadPoolExecutor(2))
        first, second = pools[0].map(rows_of, [rows, rows])
        check_rows(first, second)
        query.given[batch] = first

    run_with(make_query, in_threads, format=format)
    pools[0].shutdown()


def test_an_action_that_takes_a_few_rows_leaves_the_others_to_the_next(
    make_query: MakeQuery,
) -> None:
    def take_first(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        few = [tuple(row) for row in rows.take(3)]
        query.given[batch] = rows_of(rows)
        assert set(few) <= set(query.given[batch])
        assert rows.limit(1).count() == 1

    run_with(make_query, take_first)


def test_a_batch_that_a_task_computes_twice_is_computed_alike(make_query: MakeQuery) -> None:
    def twice_in_a_task(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        query.given[batch] = rows_of(rows)
        check_rows(rows_of(rows.union(rows).coalesce(1)), 2 * query.given[batch])
        one = rows.coalesce(1)
        check_rows(
            rows_of(one.join(one.toDF("k", "m", "z"), "k")),
            [(k, n, s, n, s) for k, n, s in query.given[batch]],
        )

    run_with(make_query, twice_in_a_task, **{"spark.sql.autoBroadcastJoinThreshold": -1})


@pytest.mark.parametrize("kind", ["inner", "full_outer", "left_anti"])
def test_a_batch_meets_the_rows_of_a_table_whatever_its_workers(
    make_query: MakeQuery, kind: str
) -> None:
    """Three workers do not divide the number of bins, so Spark's own hash differs from theirs."""
    workers: set[int] = set()

    def met(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        query.given[batch] = rows_of(rows)
        partitions = rows.rdd.getNumPartitions()
        workers.add(partitions)
        table = query.spark.range(100).selectExpr("id as k", "id * 2 as w")
        alone = query.spark.createDataFrame(query.given[batch], rows.schema)
        for side in table, table.repartition(partitions, "k"):
            check_rows(rows_of(rows.join(side, "k", kind)), rows_of(alone.join(side, "k", kind)))

    run_with(make_query, met, **{"spark.sql.autoBroadcastJoinThreshold": -1})
    assert workers >= {UP, DOWN}


@BOTH_FORMATS
def test_the_state_read_inside_a_batch_is_that_of_the_batch_before(
    make_query: MakeQuery, format: int
) -> None:
    def read_state(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        query.given[batch] = rows_of(rows)
        if batch > 0:
            state = state_of(rows.sparkSession, query.checkpoint).select("key.k", "value.*")
            check_rows(rows_of(state), query.answer(batches=slice(batch)))

    run_with(make_query, read_state, format=format)


@BOTH_FORMATS
def test_a_stage_whose_shuffle_files_are_lost_is_run_again(
    make_query: MakeQuery, format: int
) -> None:
    lost: list[int] = []

    def lose_files(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
        first = rows_of(rows)
        local = Path(query.spark.sparkContext.getConf().get("spark.local.dir", ""))
        files = [file for file in local.glob("blockmgr-*/*/shuffle_*") if file.is_file()]
        for file in files:
            file.unlink()
        lost.append(len(files))
        # The outputs of the map stage are registered still: the fetch fails, and both stages run
        # again.
        query.given[batch] = rows_of(rows)
        check_rows(query.given[batch], first)

    run_with(make_query, lose_files, format=format)
    assert all(lost), "nothing was lost, so nothing was tried again"
