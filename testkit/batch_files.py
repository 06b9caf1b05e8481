# SPDX-License-Identifier: Apache-2.0
"""A query's input as files, one a batch: how they come into its folder, and how they are read."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

_FIRST_FILE_TIME_S = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())


def write(table: pa.Table, folder: Path, batch: int) -> None:
    """Writes the file of a batch; a query that reads the folder sees it whole or not at all."""
    hidden = folder.with_name(f"{folder.name}-{batch:06}.part")
    pq.write_table(table, hidden)
    place(hidden, folder, batch)


def place(file: Path, folder: Path, batch: int) -> None:
    """Moves a file that is whole into a folder of the same disk, as that of a batch."""
    # Spark takes files in the order of their times.
    os.utime(file, (_FIRST_FILE_TIME_S + batch,) * 2)
    file.rename(folder / f"{batch:06}.parquet")


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """The files of a folder as a stream: each is one batch."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def in_order(folder: Path) -> list[Path]:
    """The files of a folder, in the order of their batches."""
    return sorted(folder.glob("*.parquet"))


def rows(spark: SparkSession, files: Sequence[Path], schema: str) -> DataFrame:
    """The same files for a batch query."""
    return spark.read.schema(schema).parquet(*map(str, files))
