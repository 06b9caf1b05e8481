# SPDX-License-Identifier: Apache-2.0
"""Spark's state data sources read every retained version, before and after rescales; what is older
goes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from streams import FIRST_WORKERS, KEYS, STOCK, Stream, check_rows, fresh, local_session, state_of
from waiting import until

if TYPE_CHECKING:
    from streams import Rows

MORE, FEWER = 5, 1
FOREIGN = (
    "notes.txt",
    "state/0/0/notes.txt",
    "state/0/1/old/2.delta",
    "state/7/0/1.delta",
    "state/0/0/3.delta.bak",
)
BATCHES_RETAINED = 2
SWEEP_BATCHES = 2
FEW_BINS = 8
# A file is looked at once it is 16 versions old, and goes when no version before that look is
# retained.
BATCHES_UNTIL_SWEPT = 16 + 2 * SWEEP_BATCHES + BATCHES_RETAINED + 2


FORMATS = [pytest.param(1, id="v1", marks=pytest.mark.slow), pytest.param(2, id="v2")]


@pytest.fixture(scope="module")
def spark(work: Path) -> Iterator[SparkSession]:
    with local_session(fresh(work)) as session:
        yield session


def totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))


def but_for_one_bin(rows: DataFrame) -> DataFrame:
    """Writes all state in each batch, so that images come often, but for one bin after the first
    batch.
    """
    all_keys = rows.withColumn("k", f.explode(f.sequence(f.lit(0), f.lit(KEYS - 1))))
    return totals(
        all_keys.where(f"(hash(k) & {FEW_BINS - 1}) <> 0 or t < timestamp'2024-01-01 00:00:15 UTC'")
    )


def state_rows(stream: Stream, batch: int | None = None) -> Rows:
    rows = (
        state_of(stream.spark, stream.checkpoint, batch)
        .select("key.k", "value.count", "value.sum")
        .collect()
    )
    return [tuple(row) for row in rows]


@dataclass(frozen=True)
class Moved:
    """A query that has stopped, with the batches at which it had each number of workers."""

    stream: Stream
    at_first: list[int]
    during: list[int]
    with_more: list[int]
    with_fewer: list[int]


@pytest.fixture(scope="module", params=FORMATS)
def moved(spark: SparkSession, work: Path, request: pytest.FixtureRequest) -> Moved:
    """More workers than at first, in several steps, then fewer."""
    stream = Stream(spark, fresh(work), totals, format=request.param).start().run(2)
    up = [
        step.batch
        for step in stream.rescale(MORE, strategy="batched(12)").steps
        if step.batch is not None
    ]
    (down,) = stream.rescale(FEWER).steps
    stream.stop()
    assert down.batch is not None
    last = max(stream.given)
    return Moved(
        stream,
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
        check_rows(state_rows(moved.stream, batch), moved.stream.answer(batches=slice(batch + 1)))


def test_the_state_without_a_batch_is_that_of_the_last(moved: Moved) -> None:
    check_rows(state_rows(moved.stream), moved.stream.answer())


def test_partitions_are_counted_by_the_first_batch_and_have_all_rows(moved: Moved) -> None:
    for batch in (moved.at_first[-1], moved.with_more[-1], moved.with_fewer[-1]):
        rows = (
            state_of(moved.stream.spark, moved.stream.checkpoint, batch)
            .groupBy("partition_id")
            .count()
        )
        assert {row["partition_id"] for row in rows.collect()} == set(range(FIRST_WORKERS))


def test_the_change_feed_tells_each_change_once_in_its_batch(moved: Moved) -> None:
    reader = moved.stream.spark.read.format("statestore").option("readChangeFeed", "true")
    rows = reader.option("changeStartBatchId", 0).load(str(moved.stream.checkpoint))
    found = rows.select("batch_id", "change_type", "key.k", "value.count", "value.sum").collect()
    expected: Rows = []
    for batch in sorted(moved.stream.given):
        changed = {row[0] for row in moved.stream.answer(batches=slice(batch, batch + 1))}
        after = moved.stream.answer(batches=slice(batch + 1))
        expected += [(batch, "update", *row) for row in after if row[0] in changed]
    check_rows([tuple(row) for row in found], expected)


def test_the_state_is_read_by_partition_from_a_snapshot_of_an_earlier_batch(moved: Moved) -> None:
    starts = [moved.at_first[0], moved.during[0], moved.with_more[0]]
    for start, end in zip(
        starts, [moved.during[-1], moved.with_more[-1], moved.with_fewer[-1]], strict=True
    ):
        whole = state_of(moved.stream.spark, moved.stream.checkpoint, end)
        for partition in range(FIRST_WORKERS):
            reader = moved.stream.spark.read.format("statestore").option("batchId", end)
            reader = reader.option("snapshotStartBatchId", start).option(
                "snapshotPartitionId", partition
            )
            columns = ["key.k", "value.count", "value.sum", "partition_id"]
            found = reader.load(str(moved.stream.checkpoint)).select(*columns).collect()
            expected = whole.where(f"partition_id = {partition}").select(*columns).collect()
            check_rows([tuple(row) for row in found], [tuple(row) for row in expected])


def test_a_snapshot_whose_file_is_gone_is_an_error_that_names_it(moved: Moved, work: Path) -> None:
    copy = fresh(work) / "checkpoint"
    shutil.copytree(moved.stream.checkpoint, copy)
    start = moved.at_first[1]
    (file,) = (copy / "state" / "0" / "0").glob(f"{start + 1}[._]*delta")
    file.unlink()
    reader = moved.stream.spark.read.format("statestore").option("batchId", moved.with_more[0])
    reader = reader.option("snapshotStartBatchId", start).option("snapshotPartitionId", 0)
    with pytest.raises(Exception, match=f"0/{file.name}"):
        reader.load(str(copy)).collect()


def test_the_state_metadata_is_that_of_the_first_batch(moved: Moved) -> None:
    rows = moved.stream.spark.read.format("state-metadata").load(str(moved.stream.checkpoint))
    (row,) = rows.select(
        "operatorId", "operatorName", "stateStoreName", "numPartitions", "maxBatchId"
    ).collect()
    assert tuple(row) == (0, "stateStoreSave", "default", FIRST_WORKERS, max(moved.stream.given))


def test_a_session_with_other_settings_reads_the_same(moved: Moved) -> None:
    other = moved.stream.spark.newSession()
    for key, value in {"spark.megaphone.bins": "16", "spark.sql.shuffle.partitions": "7"}.items():
        other.conf.set(key, value)
    rows = (
        state_of(other, moved.stream.checkpoint)
        .select("key.k", "value.count", "value.sum")
        .collect()
    )
    check_rows([tuple(row) for row in rows], moved.stream.answer())


@dataclass(frozen=True)
class Retained:
    """A query that has run for long with few batches retained, and its state files after each
    batch.
    """

    stream: Stream
    files: list[set[str]]
    workers: dict[int, int]

    @property
    def retained(self) -> list[int]:
        """The batches that Spark's own logs still have."""
        commits = {
            int(file.name)
            for file in (self.stream.checkpoint / "commits").iterdir()
            if file.name.isdigit()
        }
        offsets = {
            int(file.name)
            for file in (self.stream.checkpoint / "offsets").iterdir()
            if file.name.isdigit()
        }
        return sorted(commits & offsets)


def state_files(checkpoint: Path) -> set[str]:
    folder = checkpoint / "state" / "0"
    found = {str(file.relative_to(folder)) for file in folder.glob("[0-9]*/*") if file.is_file()}
    return {name for name in found if f"state/0/{name}" not in FOREIGN}


def leave_orphans(checkpoint: Path) -> None:
    """A file of an attempt that nobody accepted, and what one left that died as it wrote."""
    file = next((checkpoint / "state" / "0" / "0").glob("2*.delta"))
    (file.parent / "2_orphan.delta").write_bytes(file.read_bytes())
    (file.parent / ".2_orphan.delta.1b4e28ba-2fa1-11d2-883f-0016d3cca427.tmp").write_bytes(b"half")


def versions_of(files: set[str]) -> set[int]:
    return {int(name.split("/")[1].split(".")[0].split("_")[0]) for name in files}


def run_for_long(stream: Stream, batches: int, *, rescale: bool) -> Retained:
    files = []
    stream.start()
    for batch in range(batches):
        stream.run()
        files.append(state_files(stream.checkpoint))
        if batch == 1:
            for name in FOREIGN:
                (stream.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
                (stream.checkpoint / name).write_text("not ours")
            if rescale:
                leave_orphans(stream.checkpoint)
                stream.megaphone.rescale(MORE, strategy="all-at-once")
    workers = stream.workers() if rescale else {}
    stream.stop()
    return Retained(stream, files, workers)


@pytest.fixture(scope="module", params=FORMATS)
def long_run(spark: SparkSession, work: Path, request: pytest.FixtureRequest) -> Retained:
    settings: dict[str, Any] = {
        "spark__sql__streaming__minBatchesToRetain": BATCHES_RETAINED,
        "spark__megaphone__sweep__intervalBatches": SWEEP_BATCHES,
        "spark__megaphone__bins": FEW_BINS,
    }
    stream = Stream(spark, fresh(work), but_for_one_bin, format=request.param, **settings)
    return run_for_long(stream, BATCHES_UNTIL_SWEPT, rescale=True)


def test_files_that_no_retained_version_needs_are_gone(long_run: Retained) -> None:
    versions = versions_of(long_run.files[-1])
    assert 2 not in versions, "old files are still there"
    assert 1 in versions, "a bin that was not written since needs the file of the first batch"
    assert long_run.workers == {0: MORE}


def test_what_an_attempt_left_that_nobody_accepted_is_gone(long_run: Retained) -> None:
    assert not list(long_run.stream.checkpoint.glob("state/0/*/*orphan*"))


def test_every_retained_version_is_still_readable(long_run: Retained) -> None:
    assert len(long_run.retained) >= BATCHES_RETAINED
    for batch in long_run.retained:
        expected = long_run.stream.answer(batches=slice(batch + 1))
        check_rows(state_rows(long_run.stream, batch), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "retained"), [(1, 2), (2, 1)])
def test_old_files_go_though_no_run_has_more_than_one_batch(
    spark: SparkSession, work: Path, format: int, retained: int
) -> None:
    settings: dict[str, Any] = {
        "spark__sql__streaming__minBatchesToRetain": retained,
        "spark__megaphone__sweep__intervalBatches": 1000,
        "spark__megaphone__bins": FEW_BINS,
    }
    stream = Stream(spark, fresh(work), but_for_one_bin, format=format, **settings).start()
    stream.run(BATCHES_UNTIL_SWEPT).stop()
    assert {1, 2} <= versions_of(state_files(stream.checkpoint)), (
        "they went before the runs of one batch"
    )
    stream.spark.conf.set("spark.megaphone.sweep.intervalBatches", str(SWEEP_BATCHES))
    stream.trigger = {"availableNow": True}
    for _ in range(SWEEP_BATCHES):
        stream.write().start().running.awaitTermination()
    until(
        lambda: 2 not in versions_of(state_files(stream.checkpoint)), "files of the second batch go"
    )
    assert 1 in versions_of(state_files(stream.checkpoint)), (
        "a bin needs the file of the first batch"
    )
    check_rows(state_rows(stream), stream.answer())


def test_files_that_are_not_state_are_left_alone(long_run: Retained) -> None:
    for name in FOREIGN:
        assert (long_run.stream.checkpoint / name).read_text() == "not ours"
    folders = {path.name for path in long_run.stream.checkpoint.iterdir() if path.is_dir()}
    assert folders == {"commits", "offsets", "sources", "state", "megaphone"}
    assert (long_run.stream.checkpoint / "metadata").is_file()
    records = sorted(
        int(file.name) for file in (long_run.stream.checkpoint / "megaphone" / "log").iterdir()
    )
    assert records == list(range(len(records))), "the plan log is kept whole"


def test_a_batch_writes_no_more_files_than_the_hdfs_backed_provider(
    spark: SparkSession, work: Path
) -> None:
    folder = fresh(work)

    def files_per_batch(name: str, **settings: Any) -> list[int]:
        run = run_for_long(
            Stream(spark, folder / name, totals, format=1, **settings), 6, rescale=False
        )
        return [len(after - before) for before, after in pairwise(run.files)]

    ours = files_per_batch("ours")
    stock = files_per_batch("stock", spark__sql__streaming__stateStore__providerClass=STOCK)
    assert ours == [FIRST_WORKERS] * len(ours)
    assert all(few <= many for few, many in zip(ours, stock, strict=True)), (
        f"{ours} against {stock}"
    )
