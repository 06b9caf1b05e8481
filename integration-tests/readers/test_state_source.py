# SPDX-License-Identifier: Apache-2.0
"""Spark's state data sources read every retained version, before and after rescales."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from testkit.answers import check_rows, state_of, totals_of
from testkit.driver_process import DriverProcess
from testkit.folders import fresh
from testkit.in_process import FIRST_WORKERS, InProcessQuery
from testkit.on_demand import NO_REST, incomplete, left_incomplete
from testkit.remote import MakeRemoteQuery
from testkit.shapes import totals

if TYPE_CHECKING:
    from testkit.answers import Rows

MORE, FEWER = 5, 1
FORMATS = [pytest.param(1, id="v1", marks=pytest.mark.slow), pytest.param(2, id="v2")]


@dataclass(frozen=True)
class Moved:
    """A query that has stopped, with the batches at which it had each number of workers."""

    query: InProcessQuery
    at_first: list[int]
    during: list[int]
    with_more: list[int]
    with_fewer: list[int]


@pytest.fixture(scope="module", params=FORMATS)
def moved(spark: SparkSession, work: Path, request: pytest.FixtureRequest) -> Moved:
    """More workers than at first, in several steps, then fewer."""
    query = InProcessQuery(spark, fresh(work), totals, format=request.param).start().run(2)
    up = [
        step.batch
        for step in query.rescale(MORE, strategy="batched(12)").steps
        if step.batch is not None
    ]
    (down,) = query.rescale(FEWER).steps
    query.stop()
    assert down.batch is not None
    last = max(query.given)
    return Moved(
        query,
        at_first=list(range(up[0])),
        during=list(range(up[0], up[-1])),
        with_more=list(range(up[-1], down.batch)),
        with_fewer=list(range(down.batch, last + 1)),
    )


@pytest.mark.parametrize("when", ["at_first", "during", "with_more", "with_fewer"])
def test_the_state_of_a_batch_is_the_batch_answer_of_the_input_until_then(
    moved: Moved, when: str
) -> None:
    batches: list[int] = getattr(moved, when)
    for batch in batches:
        moved.query.check_state(batch)


def test_the_state_without_a_batch_is_that_of_the_last(moved: Moved) -> None:
    moved.query.check_state()


def test_partitions_are_counted_by_the_first_batch_and_have_all_rows(moved: Moved) -> None:
    for batch in (moved.at_first[-1], moved.with_more[-1], moved.with_fewer[-1]):
        rows = (
            state_of(moved.query.spark, moved.query.checkpoint, batch)
            .groupBy("partition_id")
            .count()
        )
        assert {row["partition_id"] for row in rows.collect()} == set(range(FIRST_WORKERS))


def test_the_change_feed_tells_each_change_once_in_its_batch(moved: Moved) -> None:
    reader = moved.query.spark.read.format("statestore").option("readChangeFeed", "true")
    rows = reader.option("changeStartBatchId", 0).load(str(moved.query.checkpoint))
    found = rows.select("batch_id", "change_type", "key.k", "value.count", "value.sum").collect()
    expected: Rows = []
    for batch in sorted(moved.query.given):
        changed = {row[0] for row in moved.query.answer(batches=slice(batch, batch + 1))}
        after = moved.query.answer(batches=slice(batch + 1))
        expected += [(batch, "update", *row) for row in after if row[0] in changed]
    check_rows([tuple(row) for row in found], expected)


def test_the_state_is_read_by_partition_from_a_snapshot_of_an_earlier_batch(moved: Moved) -> None:
    starts = [moved.at_first[0], moved.during[0], moved.with_more[0]]
    for start, end in zip(
        starts, [moved.during[-1], moved.with_more[-1], moved.with_fewer[-1]], strict=True
    ):
        whole = state_of(moved.query.spark, moved.query.checkpoint, end)
        for partition in range(FIRST_WORKERS):
            reader = moved.query.spark.read.format("statestore").option("batchId", end)
            reader = reader.option("snapshotStartBatchId", start).option(
                "snapshotPartitionId", partition
            )
            columns = ["key.k", "value.count", "value.sum", "partition_id"]
            found = reader.load(str(moved.query.checkpoint)).select(*columns).collect()
            expected = whole.where(f"partition_id = {partition}").select(*columns).collect()
            check_rows([tuple(row) for row in found], [tuple(row) for row in expected])


def test_a_snapshot_whose_file_is_gone_is_an_error_that_names_it(moved: Moved, work: Path) -> None:
    copy = fresh(work) / "checkpoint"
    shutil.copytree(moved.query.checkpoint, copy)
    start = moved.at_first[1]
    (file,) = (copy / "state" / "0" / "0").glob(f"{start + 1}[._]*delta")
    file.unlink()
    reader = moved.query.spark.read.format("statestore").option("batchId", moved.with_more[0])
    reader = reader.option("snapshotStartBatchId", start).option("snapshotPartitionId", 0)
    with pytest.raises(Exception, match=f"0/{file.name}"):
        reader.load(str(copy)).collect()


def test_the_state_metadata_is_that_of_the_first_batch(moved: Moved) -> None:
    rows = moved.query.spark.read.format("state-metadata").load(str(moved.query.checkpoint))
    (row,) = rows.select(
        "operatorId", "operatorName", "stateStoreName", "numPartitions", "maxBatchId"
    ).collect()
    assert tuple(row) == (0, "stateStoreSave", "default", FIRST_WORKERS, max(moved.query.given))


def test_a_session_with_other_settings_reads_the_same(moved: Moved) -> None:
    other = moved.query.spark.newSession()
    for key, value in {"spark.megaphone.bins": "16", "spark.sql.shuffle.partitions": "7"}.items():
        other.conf.set(key, value)
    check_rows(totals_of(state_of(other, moved.query.checkpoint)), moved.query.answer())


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
def test_the_state_is_whole_while_bins_are_incomplete(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format, **NO_REST).spread()
    plan = left_incomplete(query)
    newest = query.run(2).settle()
    (step,) = query.plan(plan)["batches"]
    for batch in range(newest + 1):
        query.check_state(batch)
    assert step < newest
    assert incomplete(query) > 0, "the rest has come meanwhile"
