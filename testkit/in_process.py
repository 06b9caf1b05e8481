# SPDX-License-Identifier: Apache-2.0
"""Queries that run in the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_megaphone import Megaphone, Plan
from testkit import batch_files
from testkit.answers import Rows, rows_of, state_of, totals_of
from testkit.input import FEW_ROWS, SCHEMA
from testkit.running_query import RunningQuery
from testkit.session import has_executors
from testkit.shapes import Shape
from testkit.waiting import until

STOCK = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
FIRST_WORKERS = 2
UP, DOWN = 5, 1  # more workers than the session has cores, and one
BINS = 64

Each = Callable[["InProcessQuery", DataFrame, int], None]


class InProcessQuery(RunningQuery):
    """A query on a session of its own.

    Attributes:
        shape: What it does with its input; another takes effect at the next start.
        each: Takes the rows of each batch instead of `given`, which it should put them into.
        trigger: As Spark takes it; as fast as it can if there is none.
        moved_in: The batches in which steps of `rescale` took effect.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        shape: Shape,
        *,
        mode: str = "update",
        format: int = 2,
        each: Each | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(folder, mode, FEW_ROWS)
        self.spark = spark.newSession()
        self.shape, self.format, self.each = shape, format, each
        self.moved_in: list[int] = []
        self.trigger: dict[str, Any] = {}
        self._given: dict[int, Rows] = {}
        self._query: StreamingQuery | None = None
        confs = {
            "spark.sql.shuffle.partitions": FIRST_WORKERS,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.stateStore.checkpointFormatVersion": format,
            "spark.megaphone.bins": BINS,
            # Between executors long enough for bins to come from where they are, on a slow machine
            # too.
            "spark.megaphone.transfer.patienceBatches": 100 if has_executors(spark) else 3,
        } | settings
        for key, value in confs.items():
            self.spark.conf.set(key, str(value))

    def start(self) -> Self:
        """Starts it, or starts it again after a stop."""
        rows = batch_files.stream(self.spark, self.input.folder, SCHEMA)
        writer = self.shape(rows).writeStream.outputMode(self.mode).foreachBatch(self.sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self._query = writer.trigger(**(self.trigger or {"processingTime": "0 seconds"})).start()
        return self

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    @property
    def sink(self) -> Any:
        """What takes the rows of each batch."""
        return self._seen

    @property
    def running(self) -> StreamingQuery:
        """Spark's own query."""
        assert self._query is not None, "the query was never started"
        return self._query

    @property
    def megaphone(self) -> Megaphone:
        """A new handle of it."""
        return Megaphone(self.running)

    def settle(self) -> int:
        self.running.processAllAvailable()
        progress = self.running.lastProgress
        return -1 if progress is None else int(progress["batchId"])

    @property
    def given(self) -> dict[int, Rows]:
        return self._given

    def answer(self, shape: Shape | None = None, *, batches: slice = slice(None)) -> Rows:
        """What a batch query of this shape or another answers over the same input."""
        rows = batch_files.rows(self.spark, self.input.files()[batches], SCHEMA)
        return rows_of((shape or self.shape)(rows))

    def totals_in_state(self, batch: int | None = None, operator: int = 0) -> Rows:
        return totals_of(state_of(self.spark, self.checkpoint, batch, operator))

    def submit(self, verb: str, what: Any, **how: Any) -> str:
        return str(getattr(self.megaphone, verb)(what, **how).id)

    def table(self, which: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = getattr(self.megaphone, which)().to_pylist()
        return rows

    def rescale(
        self, workers: int, *, mode: str = "prepared", strategy: str = "all-at-once"
    ) -> Plan:
        """Rescales, running batches until it is done; then one more."""
        plan = self.megaphone.rescale(workers, strategy=strategy, mode=mode)
        self.finish(plan)
        assert {workers} == set(self.workers().values())
        batches = {step.batch for step in plan.steps}
        if has_executors(self.spark):
            until(lambda: self._from_peers(batches) > 0, "bins come from another executor")
        self.moved_in += sorted(batch for batch in batches if batch is not None)
        self.run()
        return plan

    def up_and_down(self) -> Self:
        """Starts it, and runs it through two rescales.

        One is prepared and one direct: with v1 as well as with v2 both modes are seen.
        """
        self.start().run(6)  # sessions have ended, and rows have been given up for, by then
        first, second = ("direct", "prepared") if self.format == 1 else ("prepared", "direct")
        self.rescale(UP, mode=first)
        self.rescale(DOWN, mode=second)
        return self

    def check_given_in_each_move(self, is_due: Callable[[Any], bool] = lambda row: True) -> None:
        """What is due in the very batch of a move is given out in it."""
        for batch in self.moved_in:
            assert any(is_due(row) for row in self.given[batch]), (
                f"nothing was due in batch {batch}"
            )

    def on_stock(self) -> Rows:
        """What Spark's own provider gives out over the same files, each a batch."""
        no_data = "spark.sql.streaming.noDataMicroBatches.enabled"
        settings: dict[str, Any] = {
            no_data: self.spark.conf.get(no_data),
            "spark.sql.streaming.stateStore.providerClass": STOCK,
        }
        folder = self.folder / "stock"
        stock = InProcessQuery(self.spark, folder, self.shape, mode=self.mode, format=1, **settings)
        stock.input = self.input
        stock.trigger = {"availableNow": True}
        stock.start().running.awaitTermination()
        return stock.given_out()

    def _from_peers(self, batches: set[int | None]) -> int:
        """Bins that came from the memory of other executors in some batches, as these tell."""
        rows = self.table("migrations")
        return sum(row["bins_from_peer"] for row in rows if row["batch"] in batches)

    def _seen(self, rows: DataFrame, batch: int) -> None:
        if self.each is None:
            self._given[batch] = rows_of(rows)
        else:
            self.each(self, rows, batch)


MakeQuery = Callable[..., InProcessQuery]
