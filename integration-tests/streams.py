# SPDX-License-Identifier: Apache-2.0
"""Queries driven from the test's own process: their input, what they gave out, and the batch
answer.
"""

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import jvms
from spark_megaphone import Megaphone, Plan, configure
from waiting import until

STOCK = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FLUSH = -1  # the key of rows that are there for their time alone
KEYS = 200
FIRST_WORKERS = 2
UP, DOWN = 5, 1  # more workers than the session has cores, and one
_ROWS = 120
_BINS = 64
_START = datetime(2024, 1, 1, tzinfo=UTC)
_SECONDS_PER_BATCH = 10
_SCHEMA = "k long, v long, t timestamp"
_EXECUTORS = "local-cluster[2,1,1024]"
DATA_ONLY = {"spark__sql__streaming__noDataMicroBatches__enabled": "false"}  # each batch has a file

Shape = Callable[[DataFrame], DataFrame]
Rows = list[tuple[Any, ...]]


@contextlib.contextmanager
def local_session(folder: Path, *, has_executors: bool = False) -> Iterator[SparkSession]:
    """A session with the plugin, on `local[2]` or with two executors of one core that are
    processes.

    One that other tests have left running is stopped first.
    """
    if SparkContext._active_spark_context is not None:
        SparkSession.builder.getOrCreate().stop()
    os.environ |= jvms.environment()
    settings = {
        "spark.locality.wait": "20s",
        **jvms.settings(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    master = _EXECUTORS if has_executors else "local[2]"
    builder = SparkSession.builder.master(master).appName("spark-megaphone integration tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = configure(builder).getOrCreate()
    session.sparkContext.pythonExec = sys.executable
    yield session
    session.stop()
    shutil.rmtree(
        Path(os.environ["SPARK_HOME"]) / "work", ignore_errors=True
    )  # what executors left there


def fresh(work: Path) -> Path:
    """A new folder in one that is removed when the tests end."""
    return Path(tempfile.mkdtemp(dir=work))


class Stream:
    """One query over files that are written one by one, each a batch; it may be stopped and started
    again.

    A batch has 120 rows, with other keys of the 200 than the one before. Event time goes on by ten
    seconds.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        shape: Shape,
        *,
        mode: str = "update",
        format: int = 2,
        each: Callable[["Stream", DataFrame, int], None] | None = None,
        **settings: Any,
    ) -> None:
        self.spark = spark.newSession()
        self.source, self.checkpoint = folder / "source", folder / "checkpoint"
        self.source.mkdir(parents=True)
        self.shape, self.mode, self.format, self.each = shape, mode, format, each
        self.given: dict[int, Rows] = {}
        self.moved_in: list[int] = []
        self.time = _START
        self.written = itertools.count()
        self.trigger: dict[str, Any] = {}
        self.query: StreamingQuery | None = None
        confs = {
            "spark.sql.shuffle.partitions": FIRST_WORKERS,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.stateStore.checkpointFormatVersion": format,
            "spark.megaphone.bins": _BINS,
            # Between executors long enough for bins to come from where they are, on a slow machine
            # too.
            "spark.megaphone.transfer.patienceBatches": 8 if self._has_executors else 3,
        } | {name.replace("__", "."): value for name, value in settings.items()}
        for key, value in confs.items():
            self.spark.conf.set(key, str(value))

    def start(self) -> "Stream":
        rows = (
            self.spark.readStream.schema(_SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.source))
        )
        writer = self.shape(rows).writeStream.outputMode(self.mode).foreachBatch(self._seen)
        self.query = (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(**self._trigger())
            .start()
        )
        return self

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()

    @property
    def _has_executors(self) -> bool:
        return self.spark.sparkContext.master == _EXECUTORS

    @property
    def running(self) -> StreamingQuery:
        assert self.query is not None, "the query was never started"
        return self.query

    @property
    def megaphone(self) -> Megaphone:
        return Megaphone(self.running)

    def write(self, batches: int = 1) -> "Stream":
        """Writes the rows of so many batches."""
        for _ in range(batches):
            batch = next(self.written)
            self.time += timedelta(seconds=_SECONDS_PER_BATCH)
            self._write(
                batch, [((batch * 50 + row) * 7919 % KEYS, row % 3) for row in range(_ROWS)]
            )
        return self

    def flush(self) -> "Stream":
        """Moves event time on by three hours, so that the watermark passes all that there is."""
        for _ in range(2):
            self.time += timedelta(hours=3)
            self._write(next(self.written), [(FLUSH, 1)])  # both sides of a join take ones
        self.running.processAllAvailable()
        return self

    def run(self, batches: int = 1) -> "Stream":
        """Writes so many batches, and waits until they are processed."""
        self.write(batches)
        self.running.processAllAvailable()
        return self

    def rescale(
        self, workers: int, *, mode: str = "prepared", strategy: str = "all-at-once"
    ) -> Plan:
        """Rescales, running batches until it is done; then one more."""
        plan = self.megaphone.rescale(workers, strategy=strategy, mode=mode)
        self.run_until_done(plan)
        assert {workers} == set(self.workers().values())
        batches = {step.batch for step in plan.steps}
        if self._has_executors:
            until(lambda: self._from_peers(batches) > 0, "bins come from another executor")
        self.moved_in += sorted(batch for batch in batches if batch is not None)
        self.run()
        return plan

    def _from_peers(self, batches: set[int | None]) -> int:
        """Bins that moved in from the memory of other executors, in some batches: executors tell of
        them.
        """
        moves = self.megaphone.migrations().to_pylist()
        return sum(row["bins_from_peer"] for row in moves if row["batch"] in batches)

    def up_and_down(self) -> "Stream":
        """Starts it, and runs it through both rescales, one prepared and one direct: with v1 as
        well as with v2 both modes are seen.
        """
        self.start().run(6)  # sessions have ended, and rows have been given up for, by then
        first, second = ("direct", "prepared") if self.format == 1 else ("prepared", "direct")
        self.rescale(UP, mode=first)
        self.rescale(DOWN, mode=second)
        return self

    def run_until_done(self, plan: Plan, batches_max: int = 16) -> None:
        for _ in range(batches_max):
            if plan.status == "done":
                return
            self.run()
        raise AssertionError(f"{plan} is not done after {batches_max} batches")

    def workers(self) -> dict[int, int]:
        """How many workers each group of operators has."""
        return dict(Counter(row["operator"] for row in self.megaphone.workers().to_pylist()))

    def files(self) -> list[str]:
        """The input files, in the order of their batches."""
        return [str(file) for file in sorted(self.source.glob("*.parquet"))]

    def answer(self, shape: Shape | None = None, batches: slice = slice(None)) -> Rows:
        """What a batch query over the same input answers, or over some batches of it."""
        rows = self.spark.read.schema(_SCHEMA).parquet(*self.files()[batches])
        return _plain((shape or self.shape)(rows).collect())

    def on_stock(self) -> Rows:
        """What Spark's own provider gives out over the same files, each a batch."""
        stock = Stream(self.spark, fresh(self.source.parent), self.shape, mode=self.mode, format=1)
        no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
        stock.spark.conf.set(no_data, str(self.spark.conf.get(no_data)))
        stock.spark.conf.set("spark.sql.streaming.stateStore.providerClass", STOCK)
        stock.source = self.source
        stock.trigger = {"availableNow": True}
        stock.start().running.awaitTermination()
        return stock.given_out()

    def given_out(self, keys: int = 1) -> Rows:
        """What the output says at the end: in update mode the last row of each key, its first
        columns.
        """
        batches = [self.given[batch] for batch in sorted(self.given)]
        if self.mode == "complete":
            return batches[-1]
        rows = [row for batch in batches for row in batch]
        return rows if self.mode == "append" else list({row[:keys]: row for row in rows}.values())

    def check(self, keys: int = 1, answer: Shape | None = None) -> None:
        """The output must be the batch answer; rows that were there for their time alone do not
        count.
        """
        for batch, rows in self.given.items():
            twice = [key for key, n in Counter(row[:keys] for row in rows).items() if n > 1]
            assert self.mode == "append" or not twice, (
                f"batch {batch} has {len(twice)} keys twice: {twice[:3]}"
            )
        check_rows(self.given_out(keys), self.answer(answer))

    def check_given_in_each_move(self, is_due: Callable[[Any], bool] = lambda row: True) -> None:
        """What is due in the very batch of a move is given out in it."""
        for batch in self.moved_in:
            assert any(is_due(row) for row in self.given[batch]), (
                f"nothing was due in batch {batch}"
            )

    def _seen(self, rows: DataFrame, batch: int) -> None:
        if self.each is None:
            self.given[batch] = _plain(rows.collect())
        else:
            self.each(self, rows, batch)

    def _trigger(self) -> dict[str, Any]:
        return self.trigger or {"processingTime": "0 seconds"}

    def _write(self, batch: int, rows: list[tuple[int, int]]) -> None:
        table = pa.table(
            {
                "k": pa.array([k for k, _ in rows], pa.int64()),
                "v": pa.array([v for _, v in rows], pa.int64()),
                "t": pa.array([self.time] * len(rows), pa.timestamp("us", tz="UTC")),
            }
        )
        hidden = self.source.parent / f"{batch:04}.part"
        pq.write_table(table, hidden)
        # Spark takes files in the order of their times.
        os.utime(hidden, (self.time.timestamp(),) * 2)
        hidden.rename(self.source / f"{batch:04}.parquet")


def check_rows(found: Rows, expected: Rows) -> None:
    """Two answers must have the same rows, each as often."""
    wrong = Counter(found)
    wrong.subtract(expected)
    mistakes = {row: n for row, n in wrong.items() if n and FLUSH not in row}
    assert not mistakes, (
        f"{len(mistakes)} wrong rows, such as {next(iter(mistakes.items()))} too often"
    )
    assert any(FLUSH not in row for row in expected), (
        "the batch answer is empty, so nothing was compared"
    )


def state_of(
    spark: SparkSession, checkpoint: Path, batch: int | None = None, operator: int = 0
) -> DataFrame:
    """The state data source: the newest version, or that which a batch left."""
    reader = spark.read.format("statestore").option("operatorId", operator)
    return (reader if batch is None else reader.option("batchId", batch)).load(str(checkpoint))


def _plain(rows: list[Any]) -> Rows:
    return [tuple(row) for row in rows]


MakeStream = Callable[..., Stream]

__all__ = [
    "DATA_ONLY",
    "FIRST_WORKERS",
    "FLUSH",
    "KEYS",
    "STOCK",
    "MakeStream",
    "Rows",
    "Shape",
    "Stream",
    "check_rows",
    "fresh",
    "local_session",
    "state_of",
]
