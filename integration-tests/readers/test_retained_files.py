# SPDX-License-Identifier: Apache-2.0
"""State files go when no retained version needs them; what is retained stays readable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from testkit.folders import fresh
from testkit.in_process import FIRST_WORKERS, STOCK, InProcessQuery
from testkit.input import FEW_ROWS
from testkit.shapes import totals
from testkit.waiting import until

MORE = 5
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


def but_for_one_bin(rows: DataFrame) -> DataFrame:
    """Writes all state in each batch, so that images come often, but for one bin after the first
    batch.
    """
    keys = f.sequence(f.lit(0), f.lit(FEW_ROWS.keys - 1))
    all_keys = rows.withColumn("k", f.explode(keys))
    return totals(
        all_keys.where(f"(hash(k) & {FEW_BINS - 1}) <> 0 or t < timestamp'2024-01-01 00:00:15 UTC'")
    )


@dataclass(frozen=True)
class Retained:
    """A query that has run for long with few batches retained, and its state files after each
    batch.
    """

    query: InProcessQuery
    files: list[set[str]]
    workers: dict[int, int]

    @property
    def retained(self) -> list[int]:
        """The batches that Spark's own logs still have."""
        commits = {
            int(file.name)
            for file in (self.query.checkpoint / "commits").iterdir()
            if file.name.isdigit()
        }
        offsets = {
            int(file.name)
            for file in (self.query.checkpoint / "offsets").iterdir()
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


def run_for_long(query: InProcessQuery, batches: int, *, rescale: bool) -> Retained:
    files = []
    query.start()
    for batch in range(batches):
        query.run()
        files.append(state_files(query.checkpoint))
        if batch == 1:
            for name in FOREIGN:
                (query.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
                (query.checkpoint / name).write_text("not ours")
            if rescale:
                leave_orphans(query.checkpoint)
                query.megaphone.rescale(MORE, strategy="all-at-once")
    if rescale:  # a sweep runs beside the batches
        until(lambda: not list(query.checkpoint.glob("state/0/*/2[._]*")), "old files are swept")
        files.append(state_files(query.checkpoint))
    workers = query.workers() if rescale else {}
    query.stop()
    return Retained(query, files, workers)


@pytest.fixture(scope="module", params=FORMATS)
def long_run(spark: SparkSession, work: Path, request: pytest.FixtureRequest) -> Retained:
    settings: dict[str, Any] = {
        "spark.sql.streaming.minBatchesToRetain": BATCHES_RETAINED,
        "spark.megaphone.sweep.intervalBatches": SWEEP_BATCHES,
        "spark.megaphone.bins": FEW_BINS,
    }
    query = InProcessQuery(spark, fresh(work), but_for_one_bin, format=request.param, **settings)
    return run_for_long(query, BATCHES_UNTIL_SWEPT, rescale=True)


def test_files_that_no_retained_version_needs_are_gone(long_run: Retained) -> None:
    versions = versions_of(long_run.files[-1])
    assert 2 not in versions, "old files are still there"
    assert 1 in versions, "a bin that was not written since needs the file of the first batch"
    assert long_run.workers == {0: MORE}


def test_what_an_attempt_left_that_nobody_accepted_is_gone(long_run: Retained) -> None:
    assert not list(long_run.query.checkpoint.glob("state/0/*/*orphan*"))


def test_every_retained_version_is_still_readable(long_run: Retained) -> None:
    assert len(long_run.retained) >= BATCHES_RETAINED
    for batch in long_run.retained:
        long_run.query.check_state(batch)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "retained"), [(1, 2), (2, 1)])
def test_old_files_go_though_no_run_has_more_than_one_batch(
    spark: SparkSession, work: Path, format: int, retained: int
) -> None:
    settings: dict[str, Any] = {
        "spark.sql.streaming.minBatchesToRetain": retained,
        "spark.megaphone.sweep.intervalBatches": 1000,
        "spark.megaphone.bins": FEW_BINS,
    }
    query = InProcessQuery(spark, fresh(work), but_for_one_bin, format=format, **settings).start()
    query.run(BATCHES_UNTIL_SWEPT).stop()
    assert {1, 2} <= versions_of(state_files(query.checkpoint)), (
        "they went before the runs of one batch"
    )
    query.spark.conf.set("spark.megaphone.sweep.intervalBatches", str(SWEEP_BATCHES))
    query.trigger = {"availableNow": True}
    for _ in range(SWEEP_BATCHES):
        query.write().start().running.awaitTermination()
    until(
        lambda: 2 not in versions_of(state_files(query.checkpoint)), "files of the second batch go"
    )
    assert 1 in versions_of(state_files(query.checkpoint)), (
        "a bin needs the file of the first batch"
    )
    query.check_state()


def test_files_that_are_not_state_are_left_alone(long_run: Retained) -> None:
    for name in FOREIGN:
        assert (long_run.query.checkpoint / name).read_text() == "not ours"
    folders = {path.name for path in long_run.query.checkpoint.iterdir() if path.is_dir()}
    assert folders == {"commits", "offsets", "sources", "state", "megaphone"}
    assert (long_run.query.checkpoint / "metadata").is_file()
    records = sorted(
        int(file.name) for file in (long_run.query.checkpoint / "megaphone" / "log").iterdir()
    )
    assert records == list(range(len(records))), "the plan log is kept whole"


def test_a_batch_writes_no_more_files_than_the_hdfs_backed_provider(
    spark: SparkSession, work: Path
) -> None:
    folder = fresh(work)

    def files_per_batch(name: str, **settings: Any) -> list[int]:
        run = run_for_long(
            InProcessQuery(spark, folder / name, totals, format=1, **settings), 6, rescale=False
        )
        return [len(after - before) for before, after in pairwise(run.files)]

    ours = files_per_batch("ours")
    stock = files_per_batch("stock", **{"spark.sql.streaming.stateStore.providerClass": STOCK})
    assert ours == [FIRST_WORKERS] * len(ours)
    assert all(few <= many for few, many in zip(ours, stock, strict=True)), (
        f"{ours} against {stock}"
    )
