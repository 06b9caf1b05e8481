# SPDX-License-Identifier: Apache-2.0
"""All batches of plans that move half of the state between two executors, against idle batches.

`python benchmarks/step.py [--sizes 1000000 2000000 4000000] [--rows 50000] [--rounds 5]`

  1. A query per size loads every key and gets warm. Its batches follow each other without a pause.
  2. By turns, each mode and strategy moves half of the state there or back: first some idle
     batches, then the plan's, from its submission until three batches after its end. "nothing" is
     forty batches in which nothing moves: what it says is the noise of the machine.
  3. A round's ratio is that of the slowest of the plan's batches to the 99th percentile of the idle
     ones. The slope of a way to move is its ratio at the largest size over that at the smallest.
     *Fluid* and *optimized* make 32 steps, for half of the bins would take hundreds. Beside it: the
     bytes that came from other executors and from files, of the live bytes moved.
  4. Beside it, once, Spark's own way: stop, repartition offline, start again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import harness
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tqdm import tqdm

from spark_megaphone import Megaphone
from testkit import batch_files

WARM_UP_BATCHES = 25
IDLE_BATCHES = 40
CONTROL_BATCHES = 40
AFTER_BATCHES = 3
FILES = 16  # with updates; they come again and again
FILES_AHEAD = 6
LOOK_S = 0.05
PATIENCE_S = 600
# As docs/operations.md advises: the threads that copy leave the cores to the tasks.
BELOW_TASKS = "-XX:ThreadPriorityPolicy=1 -XX:JavaPriority1_To_OSPriority=19"
CONTROL = "nothing"
STRATEGIES = ("all-at-once", "batched", "optimized", "fluid")
WAYS = [
    CONTROL,
    *map(" ".join, itertools.product(("prepared", "direct"), STRATEGIES)),
    *(f"on-demand {strategy}" for strategy in ("all-at-once", "batched")),
]
# So many steps with one bin of a worker: half of the bins would take hundreds of batches.
SHORT_STEPS = 32
BINS_A_STEP = {"fluid": 1, "optimized": 2}
Round = dict[str, float]


class Feed:
    """A stream of generated batches: each `next` writes one file and waits until it is
    processed.

    Attributes:
        shape: What the query does.
    """

    def __init__(self, spark: SparkSession, folder: Path, keys: int, rows: int) -> None:
        self.shape: Callable[[DataFrame], DataFrame] = harness.wide_aggregate
        self.spark, self.folder, self.keys, self.rows, self.batch = spark, folder, keys, rows, 0
        harness.write_batches(spark, folder, keys, rows, 1)

    def start(self, checkpoint: Path) -> StreamingQuery:
        """Starts the query and runs the batch that loads every key."""
        query = harness.started(self.spark, self.folder, checkpoint, self.shape)
        query.processAllAvailable()
        return query

    def write(self) -> None:
        """Writes one more file; its batch begins."""
        self.batch += 1
        harness.write_updates(self.spark, self.folder, self.batch, self.keys, self.rows)

    def next(self, query: StreamingQuery) -> int:
        """Runs one more batch; its duration in ms."""
        self.write()
        query.processAllAvailable()
        return harness.durations_ms(query)[-1]


def half_moved(feed: Feed, query: StreamingQuery, mode: str) -> tuple[int, int]:
    """Moves half of the state in one step; the duration of the step's batch in ms, and the bins.

    Called again, it moves the same bins back.
    """
    moves = exchanged(query)
    plan = Megaphone(query).move(moves, strategy="all-at-once", mode=mode)
    durations: dict[int, int] = {}
    while plan.steps[0].batch is None:
        duration = feed.next(query)
        durations[int(query.lastProgress["batchId"])] = duration  # type: ignore[index]
    return durations[plan.steps[0].batch], len(moves)


def moves_of(query: StreamingQuery, strategy: str, one_in: int = 2) -> dict[int, int]:
    """What a plan of a strategy moves: not all of it if that took hundreds of steps."""
    moves = exchanged(query, one_in)
    if strategy in BINS_A_STEP:
        return some_of_each(moves, SHORT_STEPS * BINS_A_STEP[strategy])
    return moves


def came_bytes(megaphone: Megaphone, since: int) -> int:
    """What came to the targets of all moves, from a batch on."""
    rows = [row for row in megaphone.migrations().to_pylist() if row["batch"] >= since]
    return sum(row["bytes_from_peer"] + row["bytes_from_checkpoint"] for row in rows)


def exchanged(query: StreamingQuery, one_in: int = 2) -> dict[int, int]:
    """Every other bin of each worker, or fewer, with the other worker: an even load."""
    owners = Megaphone(query).bins().to_pydict()
    pairs = zip(owners["bin"], owners["worker"], strict=True)
    return {bin: 1 - worker for bin, worker in pairs if bin // 2 % one_in == 1}


def some_of_each(moves: dict[int, int], bins: int) -> dict[int, int]:
    """So many of the moves, as many to the one worker as to the other."""
    by_target = [[bin for bin in moves if moves[bin] == worker] for worker in (0, 1)]
    pairs = zip(*by_target, strict=False)
    return {bin: moves[bin] for pair in itertools.islice(pairs, bins // 2) for bin in pair}


@dataclass(frozen=True)
class Move:
    """What a plan took.

    Attributes:
        durations_ms: Of its batches, from its submission until three after its end.
        step_ms: Of the slowest batch that took a step, if any did.
        seconds: From its submission to its end.
        travelled: Bytes that came to the targets, of the live bytes of the bins that moved.
    """

    durations_ms: list[int]
    seconds: float
    travelled: float
    step_ms: int = 0


class Flow:
    """A query whose batches follow each other without a pause, and what each of them took.

    A thread keeps some files ahead of the query, removes those that it has read, and notes what
    each batch took.
    """

    def __init__(self, query: StreamingQuery, updates: list[Path], source: Path) -> None:
        self.query, self.updates, self.source = query, updates, source
        self.durations_ms: dict[int, int] = {}  # by batch
        self.ended = threading.Condition()
        self.is_over = threading.Event()
        self.feeder = threading.Thread(target=self._feed)

    def __enter__(self) -> Self:
        self.feeder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.feeder.join()

    def _feed(self) -> None:
        placed = 0
        while not self.is_over.wait(LOOK_S):
            progress = self.query.lastProgress
            if progress is None or progress["numInputRows"] == 0:
                continue
            newest = int(progress["batchId"])
            with self.ended:
                self.durations_ms[newest] = int(progress["durationMs"]["triggerExecution"])
                self.ended.notify_all()
            while placed < newest + FILES_AHEAD:
                placed += 1
                copy = self.source.with_name(f"{self.source.name}.part")
                shutil.copyfile(self.updates[placed % len(self.updates)], copy)
                batch_files.place(copy, self.source, placed)
            for old in batch_files.in_order(self.source)[: -2 * FILES_AHEAD]:
                old.unlink()

    def next_batch(self) -> int:
        """The batch that runs now, or the next one."""
        with self.ended:
            return max(self.durations_ms, default=-1) + 1

    def batches(self, first: int, last: int) -> list[int]:
        """What these batches took, in ms, once they have ended. A batch that was not seen lacks."""
        with self.ended:
            self.ended.wait_for(lambda: max(self.durations_ms, default=-1) >= last, PATIENCE_S)
            return [ms for batch, ms in self.durations_ms.items() if first <= batch <= last]

    def idle_ms(self, batches: int = IDLE_BATCHES) -> list[int]:
        """What the next batches take while nothing moves."""
        first = self.next_batch() + 1  # the one that runs now began before
        return self.batches(first, first + batches - 1)

    def rested(self, batches: int = CONTROL_BATCHES) -> Move:
        """Moves nothing."""
        begun = time.monotonic()
        return Move(self.idle_ms(batches), time.monotonic() - begun, 0.0)

    def moved(self, mode: str, strategy: str) -> Move:
        """Moves half of the state."""
        megaphone = Megaphone(self.query)
        moves = moves_of(self.query, strategy)
        share = len(moves) / len(megaphone.bins())
        live = sum(megaphone.workers()["bytes"].to_pylist())
        first, begun = self.next_batch(), time.monotonic()
        plan = megaphone.move(moves, strategy=strategy, mode=mode)
        plan.wait(timeout=PATIENCE_S, progress=False)
        seconds = time.monotonic() - begun
        # A plan on demand ends once all has come, which may be batches after its last step.
        last = max(self.next_batch() - 1, *(step.batch or 0 for step in plan.steps))
        durations_ms = self.batches(first, last + AFTER_BATCHES)
        taken = {step.batch for step in plan.steps}
        with self.ended:
            step_ms = max(ms for batch, ms in self.durations_ms.items() if batch in taken)
        travelled = came_bytes(megaphone, first) / (share * live)
        return Move(durations_ms, seconds, travelled, step_ms)


@contextmanager
def flow(spark: SparkSession, keys: int, rows: int, provider: str = "megaphone") -> Iterator[Flow]:
    """A query that has loaded `keys` keys and is warm; it gets `rows` updates a batch."""
    harness.use(spark, provider)
    with harness.folder() as written, harness.folder() as source, harness.folder() as checkpoint:
        harness.write_batches(spark, written, keys, rows, 1 + FILES)
        load, *updates = batch_files.in_order(written)
        batch_files.place(load, source, 0)
        query = harness.started(spark, source, checkpoint, harness.wide_aggregate)
        try:
            with Flow(query, updates, source) as running:
                running.batches(0, WARM_UP_BATCHES)
                yield running
        finally:
            query.stop()


def measured(running: Flow, way: str, control_batches: int) -> Round:
    """One round of one way to move."""
    idle = running.idle_ms()
    is_control = way == CONTROL
    move = running.rested(control_batches) if is_control else running.moved(*way.split())
    return {
        "idle_ms": statistics.median(idle),
        "idle_p99_ms": statistics.quantiles(idle, n=100, method="inclusive")[-1],
        "worst_ms": max(move.durations_ms),
        "median_ms": statistics.median(move.durations_ms),
        "step_ms": move.step_ms,
        "batches": float(len(move.durations_ms)),
        "seconds": move.seconds,
        "travelled": move.travelled,
    }


def offline(spark: SparkSession, keys: int, rows: int) -> dict[str, float]:
    """Spark's own way, on RocksDB: stop, repartition 2 to 4, start and run a batch; seconds of each
    part.
    """
    harness.use(spark, "rocksdb")
    with harness.folder() as folder, harness.folder() as checkpoint:
        fed = Feed(spark, folder, keys, rows)
        query = fed.start(checkpoint)
        for _ in range(3):
            fed.next(query)
        times = [time.monotonic()]
        query.stop()
        times.append(time.monotonic())
        manager: Any = spark._streamingCheckpointManager
        manager.repartition(str(checkpoint), 4)
        times.append(time.monotonic())
        query = fed.start(checkpoint)
        fed.next(query)
        times.append(time.monotonic())
        query.stop()
        parts = ("stop_s", "repartition_s", "restart_s")
        return {part: times[i + 1] - times[i] for i, part in enumerate(parts)}


def offline_told(offline: dict[str, float]) -> str:
    """The seconds of each part, in words."""
    return ", ".join(f"{part.removesuffix('_s')} {s:.1f} s" for part, s in offline.items())


def ratios(of: list[Round]) -> list[float]:
    """By round: the slowest batch of the way, over the 99th percentile of idle ones."""
    return [m["worst_ms"] / m["idle_p99_ms"] for m in of]


def table(rounds: dict[str, dict[str, list[Round]]]) -> list[str]:
    """The table's lines, and the slope of each way over the sizes."""
    lines = [
        "| keys | way to move | worst / idle p99 (spread) | worst ms | with a step, ms | "
        "idle, p99 | batches | s | bytes / live |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    medians: dict[str, list[float]] = {}
    for keys, ways in rounds.items():
        for way, of in ways.items():
            each = ratios(of)
            medians.setdefault(way, []).append(statistics.median(each))
            mean = {k: statistics.median([m[k] for m in of]) for k in of[0]}
            lines.append(
                f"| {keys} | {way} | {harness.median_and_spread(each)} | {mean['worst_ms']:.0f} | "
                f"{mean['step_ms']:.0f} | {mean['idle_ms']:.0f}, {mean['idle_p99_ms']:.0f} | "
                f"{mean['batches']:.0f} | {mean['seconds']:.1f} | {mean['travelled']:.2f} |"
            )
    return lines + harness.slopes(medians)


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 2_000_000, 4_000_000])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--control-batches",
        type=int,
        default=CONTROL_BATCHES,
        help='of "nothing": the slowest of many batches is slower than that of few',
    )
    parser.add_argument("--memory", default="3g", help="of each executor, in GiB: 6g")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument(
        "--beside",
        action="store_true",
        help="keeps the other sizes and ways that the last run has measured",
    )
    parser.add_argument("--no-offline", action="store_true", help="leaves Spark's own way out")
    parser.add_argument("--conf", nargs="*", default=[], help="key=value, for the queries")
    arguments = parser.parse_args()
    mib = int(arguments.memory.removesuffix("g")) * 1024
    spark = harness.session(
        f"local-cluster[2,1,{mib}]",
        2,
        spark__executor__memory=arguments.memory,
        spark__executor__extraJavaOptions=BELOW_TASKS,
    )
    harness.set_conf(spark, arguments.conf)
    rounds: dict[str, dict[str, list[Round]]] = {}
    result: dict[str, Any] = {"arguments": vars(arguments), "rounds": rounds}
    if arguments.beside:
        known = json.loads((harness.RESULTS / "step.json").read_text())
        rounds |= known["rounds"]
        if "offline" in known:
            result["offline"] = known["offline"]
    for keys in arguments.sizes:
        ways: dict[str, list[Round]] = {way: [] for way in arguments.ways}
        with flow(spark, keys, arguments.rows) as running:
            for mode in {way.split()[0] for way in ways} - {CONTROL}:
                running.moved(mode, "all-at-once")  # not counted: it warms up the movers
            turns = list(harness.turned(arguments.rounds, list(ways)))
            for _, way in tqdm(turns, desc=f"{keys} keys", unit="plan"):
                ways[way].append(measured(running, way, arguments.control_batches))
        rounds[str(keys)] = rounds.get(str(keys), {}) | ways
        save(result)  # the larger sizes take long
    if not arguments.no_offline:
        size = min(arguments.sizes)
        result["offline"] = {str(size): offline(spark, size, arguments.rows)}
        save(result)
    spark.stop()


def save(result: dict[str, Any]) -> None:
    """Prints and saves what is known so far, the smallest size first."""
    rounds = {keys: result["rounds"][keys] for keys in sorted(result["rounds"], key=int)}
    lines = table(rounds)
    for keys, of in result.get("offline", {}).items():
        lines += ["", f"Spark's own way at {keys} keys, once: {offline_told(of)}."]
    panels = {
        f"{keys} keys: slowest batch of the plan / idle p99": {
            f"megaphone, {way}": ratios(of) for way, of in ways.items()
        }
        for keys, ways in rounds.items()
    }
    text = "\n".join(lines) + "\n"
    harness.save("step", result | {"rounds": rounds}, text, harness.dots(panels, "times"))


if __name__ == "__main__":
    main()
