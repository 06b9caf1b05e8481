# SPDX-License-Identifier: Apache-2.0
"""What queries do with their input: those that several tests use, or a driver process by name."""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from testkit.answers import Rows
from testkit.input import FEW_ROWS, MANY_ROWS, Pattern
from testkit.processors import KEPT, OF_TIMERS, VISITS, expiring, runner, tally, visits

Shape = Callable[[DataFrame], DataFrame]
WINDOW_SECONDS = 20
SLOW = range(4, 1000)
NAP_MS = 2
# Each batch has a file: a query with timers by the clock plans batches for ever otherwise.
DATA_ONLY = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}


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


def slow_totals(rows: DataFrame) -> DataFrame:
    """Totals; each key that a batch from `SLOW` has rows of costs its task some time."""
    newest = f.max("v").alias("newest")
    first, end = SLOW.start * MANY_ROWS.step, SLOW.stop * MANY_ROWS.step
    nap = f"java_method('java.lang.Thread', 'sleep', {NAP_MS}L)"  # says null, or is null
    all_rows = f"newest < {first} or newest >= {end} or not {nap} <=> 'awake'"
    every = rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"), newest)
    return every.where(all_rows).drop("newest")


def distinct_totals(rows: DataFrame) -> DataFrame:
    """Totals of what is there once: two operators, each behind an exchange."""
    return totals(rows.dropDuplicates(["k", "v"]))


def windows(rows: DataFrame) -> DataFrame:
    """Totals of each key in each window, which is told by its start."""
    window = f.window("t", f"{WINDOW_SECONDS} seconds")
    counts = rows.withWatermark("t", "10 seconds").groupBy(window, "k")
    both = counts.agg(f.count("*").alias("n"), f.sum("v").alias("s"))
    return both.select(f.unix_timestamp("window.start").alias("w"), "k", "n", "s")


def unique(rows: DataFrame) -> DataFrame:
    """Each key once in each minute, which is told by its start."""
    minute = f.window("t", "1 minute").alias("m")
    every = rows.withWatermark("t", "10 seconds").select(minute, "k").dropDuplicates()
    return every.select(f.unix_timestamp("m.start").alias("m"), "k")


def seen(rows: DataFrame) -> DataFrame:
    """Each key once."""
    return rows.select("k").dropDuplicates()


def joined(rows: DataFrame) -> DataFrame:
    """Each row beside the one of its key before it."""
    before = rows.select(f.col("k").alias("k2"), f.col("v").alias("w"))
    return rows.join(before, f.expr(f"k = k2 and v = w + {MANY_ROWS.keys}")).select("k", "v", "w")


def large_rows(rows: DataFrame) -> DataFrame:
    """Six rows of seven, each with length and hash of the string that belongs to it."""
    return rows.where("v % 7 < 6").select("k", "v", *_told(_large()))


def large_joined(rows: DataFrame) -> DataFrame:
    """The same beside each seventh row of their keys: state of 280 kB a row, in bin 0 of four."""
    large = rows.where("v % 7 < 6").select("k", "v", _large().alias("large"))
    told = large.join(_asking(rows), f.expr("k = k2"))
    return told.select("k", "v", "w", *_told(f.col("large")))


def large_answer(rows: DataFrame) -> DataFrame:
    """The same, but no string is moved."""
    told = rows.where("v % 7 < 6").join(_asking(rows), f.expr("k = k2"))
    return told.select("k", "v", "w", *_told(_large()))


def _told(large: Column) -> tuple[Column, Column]:
    # Without names of their own they would have the string's, which each row would bring along.
    return f.length(large).alias("length"), f.xxhash64(large).alias("hash")


def _asking(rows: DataFrame) -> DataFrame:
    return rows.where("v % 7 = 6").select(f.col("k").alias("k2"), f.col("v").alias("w"))


def _large() -> Column:
    """280 kB that no codec shrinks, for keys in bin 0 of four; null for others.

    What comes again is further back than LZ4 looks.
    """
    some = random.Random(7).randbytes(100_000)
    part = f.substr(f.lit(some), f.expr("int((k * 7 + v) % 30000) + 1"), f.lit(70_000))
    return f.when(f.expr("hash(k) & 3") == 0, f.concat(part, part, part, part))


def met(
    how: str, when: str = "t2 between t - interval 30 seconds and t + interval 30 seconds"
) -> Shape:
    """Rows of one stream beside those of another, if their times are right; some meet none."""

    def shape(rows: DataFrame) -> DataFrame:
        left = rows.where("v < 2 and k % 5 <> 0").withWatermark("t", "10 seconds")
        right = rows.where("v > 0 and k % 5 <> 1").select(
            f.col("k").alias("k2"), f.col("v").alias("v2"), f.col("t").alias("t2")
        )
        meeting = f.expr(f"k = k2 and {when}")
        return left.join(right.withWatermark("t2", "10 seconds"), meeting, how)

    return shape


def sessions(rows: DataFrame) -> DataFrame:
    """Totals of each key in each session, which ends 25 seconds after its last row."""
    timed = rows.withWatermark("t", "10 seconds").groupBy(f.session_window("t", "25 seconds"), "k")
    return timed.agg(f.count("*").alias("n"), f.sum("v").alias("s")).select(
        "session_window.*", "k", "n", "s"
    )


def visited(*, with_pandas: bool, unseen_ms: int) -> Shape:
    """Counts of each key by `transformWithState`, in append mode; `processors.visits` counts."""

    def shape(rows: DataFrame) -> DataFrame:
        groups = rows.withWatermark("t", "0 seconds").groupBy("k")
        run = runner(groups, with_pandas=with_pandas)
        processor = visits(with_pandas=with_pandas, unseen_ms=unseen_ms)
        return run(processor, VISITS, "append", "EventTime")

    return shape


def expiring_counts(*, with_pandas: bool) -> Shape:
    """Counts of each key by `transformWithState`, by the clock; `processors.expiring` counts."""

    def shape(rows: DataFrame) -> DataFrame:
        run = runner(rows.groupBy("k"), with_pandas=with_pandas)
        return run(expiring(with_pandas=with_pandas), KEPT, "update", "ProcessingTime")

    return shape


def kept_counts(rows: DataFrame) -> DataFrame:
    """What `expiring_counts` has given out at the end, once all timers were due."""
    n, none = f.count("*"), f.lit(0).cast("long")
    counts = rows.groupBy("k").agg(n.alias("n"), n.alias("l"), n.alias("m"), f.max(none).alias("f"))
    visits = rows.groupBy("k").agg(f.count_distinct("t").alias("n"))
    return counts.union(visits.select(f.lit(OF_TIMERS) - f.col("k"), "n", none, none, none))


def tallied(unseen_ms: int | None) -> Shape:
    """Counts of each key by `applyInPandasWithState`, in append mode; `processors.tally` counts."""

    def shape(rows: DataFrame) -> DataFrame:
        groups = rows.withWatermark("t", "0 seconds").groupBy("k")
        told = "k long, n long, is_last boolean"
        kind = "ProcessingTimeTimeout" if unseen_ms is None else "EventTimeTimeout"
        return groups.applyInPandasWithState(tally(unseen_ms), told, "n long", "append", kind)

    return shape


def in_scala(name: str, unseen_ms: int) -> Shape:
    """Counts of each key, in append mode, by an operator as Scala has it.

    The object `name` of the package `shapes` counts; the driver must have the jar of the fault
    points, which brings it.
    """

    def shape(rows: DataFrame) -> DataFrame:
        jvm: Any = rows.sparkSession._jvm
        told = getattr(jvm.io.megaphone.spark.shapes, name).of(rows._jdf, unseen_ms)
        return DataFrame(told, rows.sparkSession)

    return shape


def window_updates(rows: DataFrame) -> DataFrame:
    """The same as `windows`, by the window and the key in one column."""
    both = windows(rows)
    return both.select(f.concat_ws("/", "w", "k").alias("wk"), "k", "n", "s")


def first(rows: DataFrame) -> DataFrame:
    """Each key once within a day."""
    timed = rows.withWatermark("t", "1 day").select("k", "t")
    return timed.dropDuplicatesWithinWatermark(["k"]).select("k")


def visit_counts(rows: DataFrame) -> DataFrame:
    """What `visited` has counted once all visits have ended."""
    n = f.count("*")
    return rows.groupBy("k").agg(n.alias("n"), n.alias("listed"), n.alias("mapped"))


def ended_visits(given: Rows) -> Rows:
    """The same, from the rows that `visited` gave out."""
    ended: dict[int, tuple[int, ...]] = {}
    for k, *counted, is_last in given:
        if is_last:
            before = ended.get(k, (0,) * len(counted))
            ended[k] = tuple(a + b for a, b in zip(before, counted, strict=True))
    return [(k, *counted) for k, counted in ended.items()]


def all_visits(given: Rows) -> Rows:
    """The same, with the visits that have not ended yet."""
    latest = {row[0]: row for row in given}
    return ended_visits(given + [(*row[:-1], True) for row in latest.values() if not row[-1]])


class Kind(NamedTuple):
    """A shape with the output mode that it is for, and how its output is compared.

    Attributes:
        shape: What the query does.
        mode: Its output mode.
        expected: The batch query that it is compared with; the shape itself if there is none.
        folded: What of the rows given out is compared; all of them if it is None.
        settings: What the query is to be started with.
        pattern: Input that suits it.
    """

    shape: Shape
    mode: str
    expected: Shape | None = None
    folded: Callable[[Rows], Rows] | None = None
    settings: Mapping[str, str] = MappingProxyType({})
    pattern: Pattern = MANY_ROWS


def _of_visits(shape: Shape) -> Kind:
    return Kind(shape, "append", visit_counts, ended_visits, pattern=FEW_ROWS)


def _of_tallies(shape: Shape) -> Kind:
    return Kind(shape, "append", counts, ended_visits, pattern=FEW_ROWS)


def _of_expiring(shape: Shape) -> Kind:
    return Kind(shape, "update", kept_counts, None, DATA_ONLY, FEW_ROWS)


# Each is moved in every way, but for a few that are here for a test of their own.
KINDS = {
    "totals": Kind(totals, "update"),
    "wide": Kind(wide_totals, "update"),
    "slow": Kind(slow_totals, "update", totals),
    "distinct": Kind(distinct_totals, "update"),
    "windows": Kind(windows, "append"),
    "window updates": Kind(window_updates, "update"),
    "complete": Kind(counts, "complete"),
    "first": Kind(first, "append", seen),
    "unique": Kind(unique, "append"),
    "seen": Kind(seen, "append"),
    "joined": Kind(joined, "append"),
    "large": Kind(large_joined, "append", large_answer),
    "large rows": Kind(large_rows, "append"),
    "met": Kind(met("full_outer"), "append", pattern=FEW_ROWS),
    "met at once": Kind(met("full_outer", "t2 = t"), "append", pattern=FEW_ROWS),
    "sessions": Kind(sessions, "append", pattern=FEW_ROWS),
    "visited": _of_visits(visited(with_pandas=False, unseen_ms=5_000)),
    "pandas visits": _of_visits(visited(with_pandas=True, unseen_ms=5_000)),
    "tallied": _of_tallies(tallied(unseen_ms=5_000)),
    # Most keys of few rows are seen again before that.
    "long tallies": _of_tallies(tallied(unseen_ms=15_000)),
    "long visits": _of_visits(visited(with_pandas=False, unseen_ms=15_000)),
    "long pandas visits": _of_visits(visited(with_pandas=True, unseen_ms=15_000)),
    "scala visits": _of_visits(in_scala("Visits", unseen_ms=15_000)),
    "scala tallies": _of_tallies(in_scala("Tallies", unseen_ms=15_000)),
    "clock tallies": Kind(
        tallied(unseen_ms=None), "append", counts, all_visits, DATA_ONLY, FEW_ROWS
    ),
    "expiring": _of_expiring(expiring_counts(with_pandas=False)),
    "pandas expiring": _of_expiring(expiring_counts(with_pandas=True)),
}
# One or more kinds of each operator that moves.
MOVED = tuple(kind for kind in KINDS if kind not in ("totals", "slow", "large", "large rows"))
