# SPDX-License-Identifier: Apache-2.0
"""Batches of a query whose checkpoint is in an S3 server or in HDFS, where each request takes a
while, and the first batch after a restart, by provider.

Spark's own providers write through Spark's own file manager, as they do without the plugin. In S3
they take as few requests for each file through the plugin's.

In HDFS a request is one of a client to the name node, and data nodes answer at once. What is
counted there is what the audit log has: not that a file gets a block, nor that it is closed.

`python benchmarks/stores.py [--stores s3 hdfs] [--keys 400000] [--rows 50000] [--rounds 5]
[--delay-ms 20]`
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import durability
import harness
from pyspark.sql import SparkSession

from testkit.hdfs import Hdfs, hdfs
from testkit.object_store import ObjectStore, object_store

Store = ObjectStore | Hdfs
STORES: dict[str, Callable[[Path, int], contextlib.AbstractContextManager[Store]]] = {
    "s3": object_store,
    "hdfs": hdfs,
}
KINDS = ["megaphone", *harness.PEERS]
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
    spark: SparkSession, store: Store, source: list[Path], last: Path, provider: str
) -> dict[str, float]:
    """One run over the files of `source`, and one more batch, of the file `last`, in the next
    run.
    """
    harness.use(spark, provider)
    spark.conf.set(MANAGER, OURS if provider == "megaphone" else SPARKS)
    with harness.folder() as files:
        # What a run before leaves to Spark's maintenance may still be under way.
        checkpoint = f"{store.root}/{files.name}"
        warm_up = 1 + WARM_UP_BATCHES  # the first one loads all keys
        link(source[:warm_up], files)
        query = harness.started(spark, files, checkpoint, harness.wide_aggregate)
        try:
            query.processAllAvailable()
            store.asked()
            link(source[warm_up:], files)
            query.processAllAvailable()
        finally:
            query.stop()
        steady = harness.durations_ms(query)[-MEASURED_BATCHES:]
        asked = of_run(store.asked(), files.name)
        first = durability.first_batch(spark, files, checkpoint, last)
        first_asked = of_run(store.asked(), files.name)
        delete(spark, checkpoint)
        return {
            "batch_ms": statistics.median(steady),
            "first_ms": first,
            "requests": len(asked) / MEASURED_BATCHES,
            "of_state": len(of_state(asked)) / MEASURED_BATCHES,
            "first_requests": len(first_asked),
        }


def link(sources: Iterable[Path], folder: Path) -> None:
    """Puts files into a folder; their times stay."""
    for source in sources:
        (folder / source.name).hardlink_to(source)


def delete(spark: SparkSession, checkpoint: str) -> None:
    """Deletes a checkpoint: the S3 server keeps all in memory."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def of_run(paths: list[str], name: str) -> list[str]:
    """Those that are of the checkpoint of a run."""
    return [path for path in paths if name in path]


def of_state(paths: list[str]) -> list[str]:
    """Those that are of the state."""
    return [path for path in paths if "/state/" in path or "state%2F" in path]


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=[*STORES])
    parser.add_argument("--keys", type=int, default=400_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delay-ms", type=int, default=20)
    arguments = parser.parse_args()
    batches = 1 + WARM_UP_BATCHES + MEASURED_BATCHES
    with harness.folder() as folder, contextlib.ExitStack() as servers:
        stores = {
            name: servers.enter_context(STORES[name](folder / name, arguments.delay_ms))
            for name in arguments.stores
        }
        settings = {
            key: value for store in stores.values() for key, value in store.settings.items()
        }
        # Often enough for the stock providers to have snapshots to start from.
        maintenance = {"spark.sql.streaming.stateStore.maintenanceInterval": "2s"}
        spark = harness.session("local[2]", PARTITIONS, **settings, **maintenance)
        written = folder / "written"
        written.mkdir()
        harness.write_batches(spark, written, arguments.keys, arguments.rows, batches + 1)
        *source, last = sorted(written.iterdir())
        for name, store in stores.items():
            result = f"stores-{name}"
            measure = partial(measured, spark, store, source, last)
            report(result, harness.rounds(result, arguments.rounds, KINDS, measure), arguments)
        spark.stop()


def report(
    name: str, rounds: list[dict[str, dict[str, float]]], arguments: argparse.Namespace
) -> None:
    """The table, a line a figure, and a plot of the times."""
    lines = [f"| | {' | '.join(KINDS)} | against the better |", "|---|---|---|---|---|"]
    for key, title in NAMES.items():
        values = [{kind: r[kind][key] for kind in KINDS} for r in rounds]
        cells = [harness.median_and_spread([v[kind] for v in values]) for kind in KINDS]
        against = harness.median_and_spread(harness.ratios(values, "megaphone", harness.PEERS))
        lines.append(f"| {title} | {' | '.join(cells)} | {against} |")
    panels = {
        NAMES[key]: {kind: [r[kind][key] for r in rounds] for kind in KINDS}
        for key in ("batch_ms", "first_ms")
    }
    result = {"arguments": vars(arguments), "rounds": rounds}
    harness.save(name, result, "\n".join(lines) + "\n", harness.dots(panels, "ms"))


if __name__ == "__main__":
    main()
