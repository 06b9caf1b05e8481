# SPDX-License-Identifier: Apache-2.0
"""All batches while whole workers go to other executors, against idle batches.

`python benchmarks/relocations.py [--sizes 1000000 4000000] [--rows 50000] [--rounds 5]`

  1. A query per size loads every key and gets warm, with one worker on each of two of three
     executors. Its batches follow each other without a pause.
  2. By turns: nothing moves; one of the workers, half of the state, goes to the free executor; it
     goes to an executor that has just begun, in place of one that was killed; the executor of one
     of them is emptied. A round's ratio is that of the slowest batch, from the call until three
     batches after its end, to the 99th percentile of the idle batches before.
  3. The slope of a way is its ratio at the largest size over that at the smallest.
  4. What a drain takes, over what its bytes would take at the rate at which the worker of the same
     round was relocated.
  5. At the smallest size, with eight workers, for the plugin with `spark.megaphone.placement.auto`
     and for Spark's providers: an executor is killed and replaced. How many batches run from then
     on until the executors' loads differ by a quarter at most, and by how much they differ then:
     the plugin's by bytes, those of Spark's providers by workers. After twenty it is over.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import harness
from losses import executors, kill, registered
from pyspark.sql import SparkSession
from step import AFTER_BATCHES, BELOW_TASKS, CONTROL, PATIENCE_S, Flow, Move, Round, flow, ratios
from tqdm import tqdm

from spark_megaphone import Megaphone
from testkit.waiting import until

WARM, COLD, DRAINED = "a worker relocated", "to a new executor", "an executor drained"
WAYS = [CONTROL, WARM, COLD, DRAINED]
REPLACED = ["megaphone", *harness.PEERS]
WORKERS_REPLACED = 8
EVEN = 1.25
BATCHES_MAX = 20
Rounds = dict[str, list[Round]]  # by way


@dataclass(frozen=True)
class Replacement:
    """What came after the replacement of an executor.

    Attributes:
        batches: Until the loads were even, or until nobody waited any longer.
        most: The load of the executor that then had most: bytes, or workers.
        least: Of the one that had least.
    """

    batches: int
    most: int
    least: int

    @property
    def is_even(self) -> bool:
        """Whether the loads were even then."""
        return 0 < self.most <= EVEN * self.least


def places(running: Flow) -> dict[int, str]:
    """The executor of each worker."""
    rows = Megaphone(running.query).workers().to_pylist()
    return {row["worker"]: row["executor"] for row in rows}


def bytes_of(running: Flow, executor: str) -> int:
    """Of the state of the workers that an executor has."""
    rows = Megaphone(running.query).workers().to_pylist()
    return sum(row["bytes"] for row in rows if row["executor"] == executor)


def free_of(spark: SparkSession, running: Flow) -> str:
    """An executor that runs no worker."""
    return min(set(executors(spark)) - set(places(running).values()), key=int)


def replace(spark: SparkSession, executor: str) -> None:
    """Kills an executor, and waits until Spark has replaced it."""
    count = registered(spark)
    kill(spark, executor)
    until(lambda: registered(spark) == count, "it is replaced", PATIENCE_S)


def moved(spark: SparkSession, running: Flow, way: str) -> tuple[Move, int]:
    """Takes worker 1 to the free executor, or empties its own; and the bytes that went."""
    from_executor = places(running)[1]
    moving = bytes_of(running, from_executor)
    first, begun = running.next_batch(), time.monotonic()
    if way == DRAINED:
        drain = Megaphone.drain(from_executor)
        drain.wait(PATIENCE_S)
        seconds = time.monotonic() - begun
        drain.cancel()
    else:
        Megaphone(running.query).place({1: free_of(spark, running)}).wait(PATIENCE_S)
        seconds = time.monotonic() - begun
    durations_ms = running.batches(first, running.next_batch() + AFTER_BATCHES)
    return Move(durations_ms, seconds, 0.0), moving


def measured(spark: SparkSession, running: Flow, way: str) -> Round:
    """One round."""
    if way == COLD:
        replace(spark, free_of(spark, running))
    idle = running.idle_ms()
    move, moving = (running.rested(), 0) if way == CONTROL else moved(spark, running, way)
    return {
        "idle_ms": statistics.median(idle),
        "idle_p99_ms": statistics.quantiles(idle, n=100, method="inclusive")[-1],
        "worst_ms": max(move.durations_ms),
        "batches": float(len(move.durations_ms)),
        "seconds": move.seconds,
        "bytes": float(moving),
    }


def bytes_by_executor(running: Flow) -> Counter[str]:
    """Of the state of the plugin's workers, by the executors that have some."""
    found: Counter[str] = Counter()
    for row in Megaphone(running.query).workers().to_pylist():
        found[row["executor"]] += row["bytes"]
    return found


def stores_by_executor(spark: SparkSession, running: Flow) -> Counter[str]:
    """How many of the stores each executor has used last, as Spark knows it."""
    jvm: Any = spark._jvm
    query = running.query._jsq
    of_spark = jvm.org.apache.spark.sql.execution.streaming.state
    coordinator = spark._jsparkSession.streams().stateStoreCoordinator()
    root = f"{query.streamingQuery().resolvedCheckpointRoot()}/state"
    found: Counter[str] = Counter()
    for partition in range(WORKERS_REPLACED):
        store = of_spark.StateStoreId(root, 0, partition, "default")
        location = coordinator.getLocation(of_spark.StateStoreProviderId(store, query.runId()))
        if location.isDefined():
            found[location.get().rsplit("_", 1)[1]] += 1
    return found


def replaced(spark: SparkSession, provider: str, keys: int, rows: int) -> Replacement:
    """Kills one of two executors, and looks at each batch from its replacement on."""
    with flow(spark, keys, rows, provider) as running:

        def loads() -> Counter[str]:
            ours = provider == "megaphone"
            return bytes_by_executor(running) if ours else stores_by_executor(spark, running)

        replace(spark, min(loads(), key=int))
        first = running.next_batch()
        there = set(executors(spark))
        while True:
            now, found = running.next_batch(), loads()
            of_each = [found[executor] for executor in there]
            after = Replacement(now - first, max(of_each), min(of_each))
            if after.is_even or after.batches >= BATCHES_MAX:
                return after
            running.batches(now, now)


def lines_of(keys: int, ways: Rounds) -> list[str]:
    """The table's lines of one size."""
    lines = []
    for way, of in ways.items():
        each = ratios(of)
        mean = {k: statistics.median([m[k] for m in of]) for k in of[0]}
        lines.append(
            f"| {keys} | {way} | {harness.median_and_spread(each)} | {mean['worst_ms']:.0f} | "
            f"{mean['idle_ms']:.0f}, {mean['idle_p99_ms']:.0f} | {mean['batches']:.0f} | "
            f"{mean['seconds']:.1f} | {mean['bytes'] / 1e6:.0f} |"
        )
    return lines


def drains_by_rate(ways: Rounds) -> list[float]:
    """By round: what the drain took, over its bytes at the rate of the relocation."""
    return [
        drained["seconds"] / (drained["bytes"] * warm["seconds"] / warm["bytes"])
        for drained, warm in zip(ways[DRAINED], ways[WARM], strict=True)
    ]


def line_replaced(provider: str, of: list[Replacement]) -> str:
    """The line of one provider."""
    batches = harness.median_and_spread([each.batches for each in of], digits=0)
    even = sum(each.is_even for each in of)
    loads = ", ".join(f"{each.most} and {each.least}" for each in of)
    return f"| {provider} | {even} of {len(of)} | {batches} | {loads} |"


def main() -> None:
    """Measures, prints and saves."""
    arguments = harness.arguments(__doc__.splitlines()[0], [1_000_000, 4_000_000])
    rounds: dict[str, Rounds] = {}
    lines = [
        "| keys | what goes | worst / idle p99 (spread) | worst ms | idle, p99 | batches | s "
        "| MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    spark = session(3, 2)
    for keys in arguments.sizes:
        ways: Rounds = {way: [] for way in WAYS}
        with flow(spark, keys, arguments.rows) as running:
            moved(spark, running, WARM)  # not counted: it warms up the third executor
            for _, way in tqdm(list(harness.turned(arguments.rounds, WAYS)), desc=f"{keys} keys"):
                ways[way].append(measured(spark, running, way))
        rounds[str(keys)] = ways
        lines += lines_of(keys, ways)
    spark.stop()
    lines += harness.slopes(
        {way: [statistics.median(ratios(of[way])) for of in rounds.values()] for way in WAYS}
    )
    lines += ["", "What a drain takes, over its bytes ÷ the rate of a worker's relocation:", ""]
    for size, ways in rounds.items():
        lines.append(f"- {size} keys: {harness.median_and_spread(drains_by_rate(ways))}")
    spark = session(2, WORKERS_REPLACED, spark__megaphone__placement__auto="true")
    after: dict[str, list[Replacement]] = {provider: [] for provider in REPLACED}
    for _, provider in tqdm(list(harness.turned(arguments.rounds, REPLACED)), desc="replaced"):
        after[provider].append(replaced(spark, provider, min(arguments.sizes), arguments.rows))
    lines += [
        "",
        "After an executor was killed and replaced:",
        "",
        "| provider | loads got even | after batches | the most and the least then |",
        "|---|---|---|---|",
        *(line_replaced(provider, of) for provider, of in after.items()),
    ]
    panels = {
        f"{keys} keys: slowest batch / idle p99": {
            f"megaphone, {way}": ratios(of) for way, of in ways.items()
        }
        for keys, ways in rounds.items()
    }
    result: dict[str, Any] = {
        "arguments": vars(arguments),
        "rounds": rounds,
        "replaced": {provider: [asdict(each) for each in of] for provider, of in after.items()},
    }
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
