# SPDX-License-Identifier: Apache-2.0
"""All batches while whole workers go to other executors, against idle batches.

`python benchmarks/relocations.py [--sizes 1000000 4000000] [--rows 50000] [--rounds 5]`

  1. A query per size loads every key and gets warm, with one worker on each of two of three
     executors. Its batches follow each other without a pause.
  2. By turns: nothing moves; one of the workers, half of the state, goes to the free executor; the
     executor of one of them is emptied. A round's ratio is that of the slowest batch, from the call
     until three batches after its end, to the 99th percentile of the idle batches before.
  3. At the smallest size, with eight workers and `spark.megaphone.placement.auto`: an executor is
     killed and replaced. How many batches run from then on until the executors' bytes differ by a
     quarter at most, and by how much they differ then.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections import Counter
from typing import Any

import harness
from losses import executors, registered
from pyspark.sql import SparkSession
from step import AFTER_BATCHES, BELOW_TASKS, CONTROL, PATIENCE_S, Flow, Move, Round, flow
from tqdm import tqdm

from spark_megaphone import Megaphone
from testkit.waiting import until

WAYS = [CONTROL, "a worker relocated", "an executor drained"]
WORKERS_REPLACED = 8
EVEN = 1.25
BATCHES_MAX = 60


def places(running: Flow) -> dict[int, str]:
    """The executor of each worker."""
    rows = Megaphone(running.query).workers().to_pylist()
    return {row["worker"]: row["executor"] for row in rows}


def free_of(spark: SparkSession, running: Flow) -> str:
    """An executor that runs no worker."""
    return min(set(executors(spark)) - set(places(running).values()), key=int)


def moved(spark: SparkSession, running: Flow, way: str) -> Move:
    """Takes worker 1 to the free executor, or empties its own."""
    first, begun = running.next_batch(), time.monotonic()
    if way == WAYS[1]:
        Megaphone(running.query).place({1: free_of(spark, running)}).wait(PATIENCE_S)
        seconds = time.monotonic() - begun
    else:
        drain = Megaphone.drain(places(running)[1])
        drain.wait(PATIENCE_S)
        seconds = time.monotonic() - begun
        drain.cancel()
    return Move(running.batches(first, running.next_batch() + AFTER_BATCHES), seconds, 0.0)


def measured(spark: SparkSession, running: Flow, way: str) -> Round:
    """One round."""
    idle = running.idle_ms()
    move = running.rested() if way == CONTROL else moved(spark, running, way)
    return {
        "idle_ms": statistics.median(idle),
        "idle_p99_ms": statistics.quantiles(idle, n=100, method="inclusive")[-1],
        "worst_ms": max(move.durations_ms),
        "batches": float(len(move.durations_ms)),
        "seconds": move.seconds,
    }


def bytes_ratio(running: Flow, gone: str) -> float:
    """Of the executors that have workers: the most bytes over the least. Infinite while all are on
    one, or some have not run since the loss of an executor.
    """
    found: Counter[str] = Counter()
    for row in Megaphone(running.query).workers().to_pylist():
        found[row["executor"]] += row["bytes"]
    is_even = len(found) > 1 and gone not in found
    return max(found.values()) / min(found.values()) if is_even else float("inf")


def replaced(spark: SparkSession, keys: int, rows: int) -> Round:
    """Kills one of two executors, and counts batches from its replacement on."""
    with flow(spark, keys, rows) as running:
        victim = places(running)[0]
        os.kill(executors(spark)[victim], signal.SIGKILL)
        until(lambda: registered(spark) < 2, "Spark has noticed the loss", PATIENCE_S)
        until(lambda: registered(spark) == 2, "it is replaced", PATIENCE_S)
        first = running.next_batch()
        while (ratio := bytes_ratio(running, victim)) > EVEN:
            batch = running.next_batch()
            running.batches(batch, batch)
            if batch > first + BATCHES_MAX:
                break
        return {"batches": float(running.next_batch() - first), "ratio": ratio}


def main() -> None:
    """Measures, prints and saves."""
    arguments = harness.arguments(__doc__.splitlines()[0], [1_000_000, 4_000_000])
    rounds: dict[str, dict[str, list[Round]]] = {}
    lines = [
        "| keys | what goes | worst / idle p99 (spread) | worst ms | idle, p99 | batches | s |",
        "|---|---|---|---|---|---|---|",
    ]
    spark = session(3, 2)
    for keys in arguments.sizes:
        ways: dict[str, list[Round]] = {way: [] for way in WAYS}
        with flow(spark, keys, arguments.rows) as running:
            moved(spark, running, WAYS[1])  # not counted: it warms up the third executor
            for _, way in tqdm(list(harness.turned(arguments.rounds, WAYS)), desc=f"{keys} keys"):
                ways[way].append(measured(spark, running, way))
        rounds[str(keys)] = ways
        for way, of in ways.items():
            each = [m["worst_ms"] / m["idle_p99_ms"] for m in of]
            mean = {k: statistics.median([m[k] for m in of]) for k in of[0]}
            lines.append(
                f"| {keys} | {way} | {harness.median_and_spread(each)} | {mean['worst_ms']:.0f} | "
                f"{mean['idle_ms']:.0f}, {mean['idle_p99_ms']:.0f} | {mean['batches']:.0f} | "
                f"{mean['seconds']:.1f} |"
            )
    spark.stop()
    spark = session(2, WORKERS_REPLACED, spark__megaphone__placement__auto="true")
    after = [replaced(spark, min(arguments.sizes), arguments.rows) for _ in range(arguments.rounds)]
    counts = harness.median_and_spread([each["batches"] for each in after])
    ratios = harness.median_and_spread([each["ratio"] for each in after])
    lines += [
        "",
        "After an executor was killed and replaced:",
        f"{counts} batches until the executors' bytes differ by a quarter at most,",
        f"then by a factor of {ratios}.",
    ]
    panels = {
        f"{keys} keys: slowest batch / idle p99": {
            f"megaphone, {way}": [m["worst_ms"] / m["idle_p99_ms"] for m in of]
            for way, of in ways.items()
        }
        for keys, ways in rounds.items()
    }
    result: dict[str, Any] = {"arguments": vars(arguments), "rounds": rounds, "replaced": after}
    harness.save("relocations", result, "\n".join(lines) + "\n", harness.dots(panels, "times"))
    spark.stop()


def session(count: int, partitions: int, **conf: str) -> SparkSession:
    """A session with so many executors."""
    return harness.session(
        f"local-cluster[{count},1,2560]",
        partitions,
        spark__executor__memory="2500m",
        spark__executor__extraJavaOptions=BELOW_TASKS,
        **conf,
    )


if __name__ == "__main__":
    main()
