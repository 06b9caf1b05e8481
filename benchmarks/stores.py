# SPDX-License-Identifier: Apache-2.0
"""Batches of a query whose checkpoint is in an S3 server, where each request takes a while, and the
first batch after a restart, by provider.

Spark's own providers write through Spark's own file manager, as they do without the plugin. Through
the plugin's they take as few requests for each file.

`python benchmarks/stores.py [--keys 400000] [--rows 50000] [--rounds 5] [--delay-ms 20]`
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from pathlib import Path

import durability
import harness
from pyspark.sql import SparkSession

from testkit.object_store import ObjectStore, Request, object_store

PARTITIONS = 4
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
OURS = "io.megaphone.spark.checkpoint.SchemeCheckpointFileManager"
SPARKS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
WARM_UP_BATCHES = 4
MEASURED_BATCHES = 12
NAMES = {
    "batch_ms": "steady batch, ms",
    "first_ms": "first batch after a restart, ms",
    "requests": "requests of a steady batch",
    "of_state": f"those for state, of {PARTITIONS} workers",
    "first_requests": "requests of the first batch after a restart",
}


def measured(
    spark: SparkSession, store: ObjectStore, provider: str, source: list[Path], last: Path
) -> dict[str, float]:
    """One run over the files of `source`, and one more batch, of the file `last`, in the next
    run.
    """
    harness.use(spark, provider)
    spark.conf.set(MANAGER, OURS if provider == "megaphone" else SPARKS)
    store.clear()
    with harness.folder() as files:
        # What a run before leaves to Spark's maintenance may still be under way.
        checkpoint = f"{store.root}/{files.name}"
        warm_up = 1 + WARM_UP_BATCHES  # the first one loads all keys
        link(source[:warm_up], files)
        query = harness.started(spark, files, checkpoint, harness.wide_aggregate)
        try:
            query.processAllAvailable()
            store.requests()
            link(source[warm_up:], files)
            query.processAllAvailable()
        finally:
            query.stop()
        steady = harness.durations_ms(query)[-MEASURED_BATCHES:]
        requests = of_run(store.requests(), files.name)
        first = durability.first_batch(spark, files, checkpoint, last)
        return {
            "batch_ms": statistics.median(steady),
            "first_ms": first,
            "requests": len(requests) / MEASURED_BATCHES,
            "of_state": len(of_state(requests)) / MEASURED_BATCHES,
            "first_requests": len(of_run(store.requests(), files.name)),
        }


def link(sources: Iterable[Path], folder: Path) -> None:
    """Puts files into a folder; their times stay."""
    for source in sources:
        (folder / source.name).hardlink_to(source)


def of_run(requests: list[Request], name: str) -> list[Request]:
    """The requests that concern the checkpoint of a run."""
    return [r for r in requests if name in r.path]


def of_state(requests: list[Request]) -> list[Request]:
    """The requests that concern the state."""
    return [r for r in requests if "/state/" in r.path or "state%2F" in r.path]


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=400_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-ms", type=int, default=20)
    arguments = parser.parse_args()
    kinds = ["megaphone", *harness.PEERS]
    batches = 1 + WARM_UP_BATCHES + MEASURED_BATCHES
    with harness.folder() as folder, object_store(folder / "s3", arguments.delay_ms) as store:
        # Often enough for the stock providers to have snapshots to start from.
        maintenance = {"spark.sql.streaming.stateStore.maintenanceInterval": "2s"}
        spark = harness.session("local[2]", PARTITIONS, **store.settings, **maintenance)
        written = folder / "written"
        written.mkdir()
        harness.write_batches(spark, written, arguments.keys, arguments.rows, batches + 1)
        *source, last = sorted(written.iterdir())
        rounds = harness.rounds(
            "stores",
            arguments.rounds,
            kinds,
            lambda kind: measured(spark, store, kind, source, last),
        )
        spark.stop()
    report(rounds, kinds, arguments)


def report(
    rounds: list[dict[str, dict[str, float]]], kinds: list[str], arguments: argparse.Namespace
) -> None:
    """The table, a line a figure, and a plot of the times."""
    lines = [f"| | {' | '.join(kinds)} | against the better |", "|---|---|---|---|---|"]
    for key, name in NAMES.items():
        values = [{kind: r[kind][key] for kind in kinds} for r in rounds]
        cells = [harness.median_and_spread([v[kind] for v in values]) for kind in kinds]
        against = harness.median_and_spread(harness.ratios(values, "megaphone", harness.PEERS))
        lines.append(f"| {name} | {' | '.join(cells)} | {against} |")
    panels = {
        NAMES[key]: {kind: [r[kind][key] for r in rounds] for kind in kinds}
        for key in ("batch_ms", "first_ms")
    }
    result = {"arguments": vars(arguments), "rounds": rounds}
    harness.save("stores", result, "\n".join(lines) + "\n", harness.dots(panels, "ms"))


if __name__ == "__main__":
    main()
