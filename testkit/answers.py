# SPDX-License-Identifier: Apache-2.0
"""Answers of queries as rows: where they are read from, and how two of them are compared."""

from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from testkit.input import FLUSH

Rows = list[tuple[Any, ...]]


def rows_of(frame: DataFrame) -> Rows:
    """All rows, as plain tuples."""
    return [tuple(row) for row in frame.collect()]


def state_of(
    spark: SparkSession, checkpoint: Path | str, batch: int | None = None, operator: int = 0
) -> DataFrame:
    """The state data source: the newest version, or that which a batch left."""
    reader = spark.read.format("statestore").option("operatorId", operator)
    return (reader if batch is None else reader.option("batchId", batch)).load(str(checkpoint))


def totals_of(state: DataFrame) -> Rows:
    """Key, count and sum of each row of the state of totals."""
    return rows_of(state.select("key.k", "value.count", "value.sum"))


def check_rows(found: Rows, expected: Rows) -> None:
    """Two answers must have the same rows, each as often."""
    wrong = Counter(found)
    wrong.subtract(expected)
    mistakes = {row: n for row, n in wrong.items() if n and FLUSH not in row}
    some = dict(list(mistakes.items())[:3])
    assert not mistakes, f"{len(mistakes)} wrong rows, and how many there are too many: {some}"
    assert any(FLUSH not in row for row in expected), (
        "the batch answer is empty, so nothing was compared"
    )
