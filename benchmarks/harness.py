# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: a session, input files, batch durations, ratios against peers of a round."""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import spark_megaphone

PROVIDERS = {
    "megaphone": "io.megaphone.BinnedStateStoreProvider",
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
RESULTS = Path(__file__).parent / "results"


def session(master: str, partitions: int, **conf: str) -> SparkSession:
    """A session with the plugin, whose file manager serves every provider alike."""
    builder = (
        SparkSession.builder.master(master)
        .appName("megaphone-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    for key, value in conf.items():
        builder = builder.config(key.replace("__", "."), value)
    return spark_megaphone.configure(builder).getOrCreate()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="megaphone-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write_batches(spark: SparkSession, to: Path, keys: int, rows: int, batches: int) -> None:
    """Writes one file a batch: first every key once, then `rows` updates of keys spread by a hash."""
    load = spark.range(keys).select(sf.col("id").alias("k"), sf.lit(0).cast("long").alias("v"))
    _write_one(load, to / "000000.parquet")
    for batch in range(1, batches):
        write_updates(spark, to, batch, keys, rows)


def write_updates(spark: SparkSession, to: Path, batch: int, keys: int, rows: int) -> None:
    """Writes the file of one batch: `rows` updates of keys spread by a hash."""
    ids = spark.range(batch * rows, (batch + 1) * rows)
    updates = ids.select(sf.pmod(sf.xxhash64("id"), sf.lit(keys)).alias("k"), sf.col("id").alias("v"))
    _write_one(updates, to / f"{batch:06d}.parquet")


def _write_one(frame: DataFrame, to: Path) -> None:
    staging = to.parent / f"{to.name}.staging"
    frame.coalesce(1).write.parquet(str(staging))
    part = next(staging.glob("part-*.parquet"))
    part.rename(to)
    shutil.rmtree(staging)


def batch_ms(
    spark: SparkSession, provider: str, source: Path, query: Callable[[DataFrame], DataFrame]
) -> list[int]:
    """Durations of all batches of `query` over the files of `source`, one a batch, on a new checkpoint."""
    if provider in PROVIDERS:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDERS[provider])
    with folder() as checkpoint:
        stream = (
            spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(str(source))
        )
        writer = (
            query(stream)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
        )
        running = writer.start()
        try:
            running.processAllAvailable()
            progress = [p for p in running.recentProgress if p["numInputRows"] > 0]
            return [int(p["durationMs"]["triggerExecution"]) for p in progress]
        finally:
            running.stop()


def ratios(rounds: Sequence[dict[str, float]], of: str, peers: Sequence[str]) -> list[float]:
    """By round: the value of `of` over that of the better peer."""
    return [r[of] / min(r[p] for p in peers) for r in rounds]


def median_and_spread(values: Sequence[float]) -> str:
    """`median (least-greatest)`."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def save(name: str, result: dict[str, Any], table: str) -> None:
    """Writes a result as JSON and as a Markdown table."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(table)
