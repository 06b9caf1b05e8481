# SPDX-License-Identifier: Apache-2.0
"""Latency over time while half of the state moves: an open loop, as in Megaphone's evaluation (VLDB
19, section 5).

`python benchmarks/latency.py [--keys 1000000] [--by uniform zipf] [--shape wide count]
[--rate 60000] [--rounds 5] [--ways …]`

  1. A query loads every key on two executors, and gets warm.
  2. From then on rows come at a fixed rate, whatever the query does: each twentieth of a second a
     file with the rows that were due in it. A row's latency is from the time at which it was due to
     the end of the batch that has it, so a stall is charged to each row that it holds up.
  3. By turns, each mode and strategy moves half of the state there or back. A round has some idle
     seconds, the plan, and some seconds after its end.
  4. A round's ratio is that of the greatest latency of the plan to the 99th percentile of the idle
     seconds before; its interruption is the greatest latency over the median of these seconds.
     Beside it, once, Spark's own way: stop, repartition offline, start again.

The plot has a panel for each mode and strategy: the latencies of the round whose ratio is the
median, in each quarter of a second, with the steps marked.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

import harness
import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from step import (
    BELOW_TASKS,
    BINS_A_STEP,
    CONTROL,
    PATIENCE_S,
    SHORT_STEPS,
    first_of_each_worker,
    half,
    offline,
)
from tqdm import tqdm

from spark_megaphone import Megaphone
from testkit import batch_files
from testkit.waiting import until

SCHEMA = "k long, v long"
TICK_S = 0.05
SHOWN_S = 0.25
TEMPLATES = 64  # files with updates; they come again and again
WARM_UP_S, IDLE_S, AFTER_S = 25.0, 8.0, 3.0
LOOK_S = 1.0
KEPT = 200  # files that have been read, of which a batch may still ask
ZIPF = 1.1
WAYS = [
    CONTROL,
    "prepared all-at-once",
    "prepared batched",
    "prepared optimized",
    "on-demand all-at-once",
    "on-demand batched",
    "direct all-at-once",
    "direct batched",
]


def counted(rows: DataFrame) -> DataFrame:
    """Megaphone's key count: about 16 bytes a key."""
    return rows.groupBy("k").count()


SHAPES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "wide": harness.wide_aggregate,
    "count": counted,
}


@dataclass
class Round:
    """What a way to move did to the rows that were due meanwhile.

    Attributes:
        due_s: When the rows of each tick were due, from the plan's submission on.
        latency_ms: Theirs.
        steps_s: When the batches ended that took steps.
        seconds: From the plan's submission to its end.
        travelled: Bytes that came to the targets, of the live bytes of the bins that moved.
    """

    due_s: list[float]
    latency_ms: list[float]
    steps_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    travelled: float = 0.0

    def _between(self, first_s: float, last_s: float) -> list[float]:
        pairs = zip(self.due_s, self.latency_ms, strict=True)
        return [latency for due, latency in pairs if first_s <= due < last_s]

    @property
    def idle_ms(self) -> list[float]:
        """Before the plan."""
        return self._between(-IDLE_S, 0)

    @property
    def worst_ms(self) -> float:
        """Of the plan, until some seconds after its end."""
        return max(self._between(0, self.seconds + AFTER_S))

    @property
    def idle_p99_ms(self) -> float:
        """The 99th percentile before the plan."""
        return statistics.quantiles(self.idle_ms, n=100, method="inclusive")[-1]

    @property
    def ratio(self) -> float:
        """How much later the latest row was than nearly all idle ones."""
        return self.worst_ms / self.idle_p99_ms

    @property
    def interruption_ms(self) -> float:
        """How much later the latest row was than an idle one."""
        return self.worst_ms - statistics.median(self.idle_ms)


class OpenLoop:
    """Gives a query a file a tick, and notes when each batch ended and what it read.

    Threads: one of its own feeds, one looks at the query and removes what it has read, the caller's
    asks.
    """

    def __init__(self, query: StreamingQuery, templates: list[Path], source: Path) -> None:
        self.query, self.templates, self.source = query, templates, source
        self.rows = pa.parquet.ParquetFile(templates[0]).metadata.num_rows
        self.begun_s = 0.0  # when the first tick was due
        self.ended: dict[int, tuple[float, int]] = {}  # by batch: when, and how many ticks it had
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=t) for t in (self._feed, self._watch)]

    def __enter__(self) -> Self:
        self.first_batch = int(self.query.lastProgress["batchId"]) + 1  # type: ignore[index]
        self.begun_s = time.time()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def _feed(self) -> None:
        for tick in itertools.count():
            wait = self.begun_s + tick * TICK_S - time.time()
            if self.is_over.wait(max(0.0, wait)):
                return
            copy = self.source.with_name(f"{self.source.name}.part")
            shutil.copyfile(self.templates[tick % len(self.templates)], copy)
            batch_files.place(copy, self.source, 1 + tick)

    def _watch(self) -> None:
        gone = 1
        while not self.is_over.wait(LOOK_S):
            self._note()
            # A folder with thousands of files would take a batch long to list.
            for tick in range(gone, max(gone, self._ticks_done() - KEPT)):
                (self.source / f"{tick:06}.parquet").unlink()
                gone = tick + 1

    def _note(self) -> None:
        for progress in self.query.recentProgress:
            rows, batch = progress["numInputRows"], int(progress["batchId"])
            if rows > 0 and batch >= self.first_batch:
                begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
                end = begun + progress["durationMs"]["triggerExecution"] / 1000
                self.ended[batch] = (end, rows // self.rows)

    def latencies(self, from_s: float, to_s: float) -> tuple[list[float], list[float]]:
        """When ticks were due in a span of time, and how late each was, in ms."""
        last = int((to_s - self.begun_s) / TICK_S)
        until(lambda: self._ticks_done() > last, "all due rows are there", PATIENCE_S)
        due_s, late_ms, tick = [], [], 0
        for end, ticks in (self.ended[batch] for batch in sorted(self.ended)):
            for _ in range(ticks):
                due = self.begun_s + tick * TICK_S
                if from_s <= due < to_s:
                    due_s.append(due)
                    late_ms.append((end - due) * 1000)
                tick += 1
        return due_s, late_ms

    def _ticks_done(self) -> int:
        return sum(ticks for _, ticks in list(self.ended.values()))


def write_templates(to: Path, keys: int, rows: int, by: str) -> list[Path]:
    """Files with the updates of a tick each, of keys that come equally often or by Zipf's law."""
    dice = np.random.default_rng(7)
    to.mkdir()
    for number in range(TEMPLATES):
        ranks = dice.zipf(ZIPF, rows) if by == "zipf" else dice.integers(0, keys, rows)
        k = (ranks.astype(np.uint64) * np.uint64(2_654_435_761) % np.uint64(keys)).astype(np.int64)
        v = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
        batch_files.write(pa.table({"k": k, "v": v}), to, number)
    return batch_files.in_order(to)


@contextmanager
def loop(spark: SparkSession, shape: str, by: str, keys: int, rate: int) -> Iterator[OpenLoop]:
    """A query that has loaded `keys` keys and is warm; `rate` rows a second come to it."""
    harness.use(spark, "megaphone")
    with harness.folder() as folder, harness.folder() as source, harness.folder() as checkpoint:
        templates = write_templates(folder / "updates", keys, int(rate * TICK_S), by)
        load = spark.range(keys).select(sf.col("id").alias("k"), sf.lit(0).cast("long").alias("v"))
        load.coalesce(1).write.parquet(str(folder / "load"))
        batch_files.place(next((folder / "load").glob("part-*.parquet")), source, 0)
        stream: DataFrame = spark.readStream.schema(SCHEMA).parquet(str(source))
        writer = SHAPES[shape](stream).writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.processAllAvailable()
            with OpenLoop(query, templates, source) as running:
                time.sleep(WARM_UP_S)  # rows come by the clock
                yield running
        finally:
            query.stop()


def measured(running: OpenLoop, way: str) -> Round:
    """One round of one way to move."""
    time.sleep(IDLE_S)
    begun_s, steps, travelled = time.time(), set[int](), 0.0
    if way == CONTROL:
        time.sleep(IDLE_S)
    else:
        mode, strategy = way.split()
        megaphone = Megaphone(running.query)
        moves = half(running.query)
        if strategy in BINS_A_STEP:
            moves = first_of_each_worker(moves, SHORT_STEPS * BINS_A_STEP[strategy])
        moved = sum(megaphone.workers()["bytes"].to_pylist()) * len(moves) / len(megaphone.bins())
        first = int(running.query.lastProgress["batchId"])  # type: ignore[index]
        plan = megaphone.move(moves, strategy=strategy, mode=mode)
        plan.wait(timeout=PATIENCE_S, progress=False)
        steps = {step.batch for step in plan.steps if step.batch is not None}
        came = [row for row in megaphone.migrations().to_pylist() if row["batch"] > first]
        travelled = sum(r["bytes_from_peer"] + r["bytes_from_checkpoint"] for r in came) / moved
    seconds = time.time() - begun_s
    time.sleep(AFTER_S)
    due_s, late_ms = running.latencies(begun_s - IDLE_S, begun_s + seconds + AFTER_S)
    return Round(
        [due - begun_s for due in due_s],
        late_ms,
        sorted(end - begun_s for batch, (end, _) in running.ended.items() if batch in steps),
        seconds,
        travelled,
    )


def median_round(rounds: list[Round]) -> Round:
    """The one whose ratio is in the middle."""
    return sorted(rounds, key=lambda r: r.ratio)[(len(rounds) - 1) // 2]


def chart(title: str, rounds: dict[str, list[Round]]) -> Figure:
    """A panel a way to move: latencies by quarters of a second, with the steps marked."""
    figure = Figure(figsize=(8, 1.0 + 1.5 * len(rounds)), layout="constrained")
    grid = figure.subplots(len(rounds), 1, squeeze=False, sharey=True)[:, 0]
    figure.suptitle(title, fontsize=11)
    for axes, (way, of) in zip(grid, rounds.items(), strict=True):
        shown = median_round(of)
        spans: dict[float, list[float]] = {}
        for due, late in zip(shown.due_s, shown.latency_ms, strict=True):
            spans.setdefault(due // SHOWN_S * SHOWN_S, []).append(late)
        times = sorted(spans)
        colour = harness.PEERS_COLOUR if way.startswith("direct") else harness.OURS_COLOUR
        axes.plot(times, [max(spans[t]) for t in times], color=colour, label="max")
        axes.plot(
            times,
            [statistics.median(spans[t]) for t in times],
            color=colour,
            alpha=0.4,
            label="p50",
        )
        for step in shown.steps_s:
            axes.axvline(step, color="grey", linewidth=0.6)
        axes.set_title(way, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylim(0, 1.05 * max(max(median_round(of).latency_ms) for of in rounds.values()))
    grid[0].legend(fontsize=8, frameon=False, loc="upper right")
    grid[-1].set_xlabel("s from the submission")
    grid[len(grid) // 2].set_ylabel("latency, ms")
    return figure


def table(rounds: dict[str, list[Round]]) -> list[str]:
    """The table's lines."""
    lines = [
        "| way to move | worst latency / idle p99 (spread) | worst ms | interruption, ms | "
        "idle p50, p99 | s | bytes / live |",
        "|---|---|---|---|---|---|---|",
    ]
    for way, of in rounds.items():
        lines.append(
            f"| {way} | {harness.median_and_spread([r.ratio for r in of])} | "
            f"{statistics.median([r.worst_ms for r in of]):.0f} | "
            f"{statistics.median([r.interruption_ms for r in of]):.0f} | "
            f"{statistics.median([statistics.median(r.idle_ms) for r in of]):.0f}, "
            f"{statistics.median([r.idle_p99_ms for r in of]):.0f} | "
            f"{statistics.median([r.seconds for r in of]):.1f} | "
            f"{statistics.median([r.travelled for r in of]):.2f} |"
        )
    return lines


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--by", nargs="+", choices=["uniform", "zipf"], default=["uniform", "zipf"])
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=["wide"])
    parser.add_argument("--rate", type=int, default=60_000, help="rows a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--no-offline", action="store_true", help="leaves Spark's own way out")
    arguments = parser.parse_args()
    spark = harness.session(
        "local-cluster[2,1,3072]",
        2,
        spark__executor__memory="3g",
        spark__executor__extraJavaOptions=BELOW_TASKS,
    )
    for shape, by in itertools.product(arguments.shape, arguments.by):
        rounds: dict[str, list[Round]] = {way: [] for way in arguments.ways}
        with loop(spark, shape, by, arguments.keys, arguments.rate) as running:
            for mode in {way.split()[0] for way in rounds} - {CONTROL}:
                measured(running, f"{mode} all-at-once")  # not counted: it warms up the movers
            turns = list(harness.turned(arguments.rounds, list(rounds)))
            for _, way in tqdm(turns, desc=f"{shape}, {by}", unit="plan"):
                rounds[way].append(measured(running, way))
        title = f"{arguments.keys} keys, {by}, {arguments.rate} rows a second, {shape}"
        result = {
            "arguments": vars(arguments),
            "rounds": {w: [vars(r) for r in of] for w, of in rounds.items()},
        }
        harness.save(
            f"latency-{shape}-{by}",
            result,
            "\n".join([f"{title}:", "", *table(rounds)]) + "\n",
            chart(title, rounds),
        )
    if not arguments.no_offline:
        parts = offline(spark, arguments.keys, int(arguments.rate * TICK_S))
        told = ", ".join(f"{k.removesuffix('_s')} {v:.1f} s" for k, v in parts.items())
        print(f"Spark's own way at {arguments.keys} keys, once: {told}.")
    spark.stop()


if __name__ == "__main__":
    main()
