# SPDX-License-Identifier: Apache-2.0
"""One session for all tests, and running queries whose state is moved and compared with a batch
answer.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery

import jvms
from spark_megaphone import Megaphone, Plan, configure

BINS = 64
KEYS = 200


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Two workers to begin with; no listener on any other interface; quick to stop.
    os.environ |= jvms.environment()
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark-megaphone tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    for key, value in jvms.settings().items():
        builder = builder.config(key, value)
    session = configure(builder, bins=BINS).getOrCreate()
    yield session
    session.stop()


class Counting:
    """A running query that counts how often each key came, with its source and its checkpoint."""

    def __init__(
        self, spark: SparkSession, folder: Path, *, shape: Callable[[DataFrame], DataFrame]
    ) -> None:
        self.spark = spark
        self.source, self.checkpoint = folder / "source", folder / "checkpoint"
        self.source.mkdir()
        self.shape = shape
        self.batches = 0
        self.answer: dict[object, int] = {}
        self.poison = False
        self.query = self.start()

    def start(self) -> StreamingQuery:
        stream = (
            self.spark.readStream.schema("k long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.source))
        )
        writer = self.shape(stream).writeStream.outputMode("update").foreachBatch(self._seen)
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        return self.query

    def _seen(self, batch: DataFrame, number: int) -> None:
        if self.poison:
            raise RuntimeError("poisoned")
        self.answer.update((row["k"], row["count"]) for row in batch.collect())

    def write(self) -> None:
        """Writes the rows of one more batch: many keys, each in some of the batches."""
        rows = self.spark.range(self.batches * 50, self.batches * 50 + KEYS)
        rows.select((col("id") * 7919 % KEYS).alias("k")).coalesce(1).write.mode("append").parquet(
            str(self.source)
        )
        self.batches += 1

    def run(self, batches: int = 1) -> "Counting":
        """Runs so many batches, to the end."""
        for _ in range(batches):
            self.write()
            self.query.processAllAvailable()
        return self

    def run_until(self, reached: Callable[[], bool], batches_max: int = 30) -> None:
        """Runs batches until it is so; fails if it never is."""
        for _ in range(batches_max):
            if reached():
                return
            self.run()
        raise AssertionError(
            f"not after {batches_max} batches: {self.megaphone.plans().to_pylist()}"
        )

    def run_until_done(self, plan: Plan) -> None:
        self.run_until(lambda: plan.status == "done")

    def expected(self) -> dict[object, int]:
        """What a batch query over the same rows answers."""
        rows = self.shape(self.spark.read.schema("k long").parquet(str(self.source))).collect()
        return {row["k"]: row["count"] for row in rows}

    @property
    def megaphone(self) -> Megaphone:
        return Megaphone(self.query)


def by_key(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").count()


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Counting]]:
    """Starts queries, which are stopped after the test."""
    started: list[Counting] = []

    def start_one(shape: Callable[[DataFrame], DataFrame] = by_key) -> Counting:
        folder = tmp_path / f"query{len(started)}"
        folder.mkdir()
        started.append(Counting(spark, folder, shape=shape))
        return started[-1]

    yield start_one
    for one in started:
        one.query.stop()


@pytest.fixture
def counting(start: Callable[..., Counting]) -> Counting:
    """A query that has run its first batch."""
    return start().run()
