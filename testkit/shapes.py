# SPDX-License-Identifier: Apache-2.0
"""What queries do with their input: those that several tests use, or a driver process by name."""

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from testkit.input import MANY_ROWS

Shape = Callable[[DataFrame], DataFrame]
WINDOW_SECONDS = 20


def counts(rows: DataFrame) -> DataFrame:
    """How often each key came."""
    return rows.groupBy("k").count()


def totals(rows: DataFrame) -> DataFrame:
    """Count and sum of each key."""
    return rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))


def wide_totals(rows: DataFrame) -> DataFrame:
    """Totals whose state has some 250 bytes for each key."""
    filled = f.max(f.repeat(f.col("v").cast("string"), 50)).alias("filled")
    wide = rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"), filled)
    # A column that nobody reads is not kept.
    return wide.where("length(filled) > 0").drop("filled")


def distinct_totals(rows: DataFrame) -> DataFrame:
    """Totals of what is there once: two operators, each behind an exchange."""
    return totals(rows.dropDuplicates(["k", "v"]))


def windows(rows: DataFrame) -> DataFrame:
    """Totals of each key in each window, which is told by its start."""
    window = f.window("t", f"{WINDOW_SECONDS} seconds")
    counts = rows.withWatermark("t", "10 seconds").groupBy(window, "k")
    both = counts.agg(f.count("*").alias("n"), f.sum("v").alias("s"))
    return both.select(f.unix_timestamp("window.start").alias("w"), "k", "n", "s")


def joined(rows: DataFrame) -> DataFrame:
    """Each row beside the one of its key before it."""
    before = rows.select(f.col("k").alias("k2"), f.col("v").alias("w"))
    return rows.join(before, f.expr(f"k = k2 and v = w + {MANY_ROWS.keys}")).select("k", "v", "w")


class Kind(NamedTuple):
    """A shape with the output mode that it is for."""

    shape: Shape
    mode: str


KINDS = {
    "totals": Kind(totals, "update"),
    "wide": Kind(wide_totals, "update"),
    "distinct": Kind(distinct_totals, "update"),
    "windows": Kind(windows, "append"),
    "joined": Kind(joined, "append"),
}
