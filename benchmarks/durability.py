# SPDX-License-Identifier: Apache-2.0
"""What a query leaves in its checkpoint, and how long the first batch of its next run takes, by
provider.

`python benchmarks/durability.py [--keys 1000000] [--rows 50000] [--batches 20] [--rounds 5]`
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import harness
from pyspark.sql import SparkSession

PARTITIONS = 4


def written(state: Path) -> tuple[int, int]:
    """Files of the state and their bytes; nothing has been deleted yet."""
    files = [f for f in state.rglob("*") if f.is_file() and not f.name.endswith(".crc")]
    return len(files), sum(f.stat().st_size for f in files)


def first_batch(spark: SparkSession, files: Path, checkpoint: Path | str, last: Path) -> float:
    """Milliseconds of the first batch of the query's next run: the one with the file `last`."""
    (files / last.name).hardlink_to(last)
    query = harness.started(spark, files, checkpoint, harness.wide_aggregate)
    query.processAllAvailable()
    query.stop()
    return float(harness.durations_ms(query)[0])


def measured(
    spark: SparkSession, provider: str, source: Path, last: Path, rows: int
) -> dict[str, float]:
    """One run over the files of `source`, and one more batch, of the file `last`, in the next
    run.
    """
    harness.use(spark, provider)
    with harness.folder() as checkpoint, harness.folder() as files:
        for file in source.iterdir():
            (files / file.name).hardlink_to(file)
        query = harness.started(spark, files, checkpoint, harness.wide_aggregate)
        query.processAllAvailable()
        query.stop()
        before = harness.durations_ms(query)
        files_count, state_bytes = written(checkpoint / "state")
        first = first_batch(spark, files, checkpoint, last)
        typical = statistics.median(before[len(before) // 2 :])
        return {
            "first_ms": first,
            "opening_ms": first - typical,
            "files_per_batch": files_count / len(before),
            "bytes_per_row": state_bytes / rows,
        }


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    # Often enough for the stock providers to have snapshots to start from.
    maintenance = {"spark__sql__streaming__stateStore__maintenanceInterval": "2s"}
    spark = harness.session("local[2]", PARTITIONS, **maintenance)
    kinds = ["megaphone", *harness.PEERS]
    with harness.folder() as source, harness.folder() as later:
        harness.write_batches(spark, source, arguments.keys, arguments.rows, 1 + arguments.batches)
        harness.write_updates(spark, later, 1 + arguments.batches, arguments.keys, arguments.rows)
        last = next(later.iterdir())
        rows = arguments.keys + arguments.batches * arguments.rows
        rounds = harness.rounds(
            "durability",
            arguments.rounds,
            kinds,
            lambda kind: measured(spark, kind, source, last, rows),
        )
    spark.stop()
    names = {
        "first_ms": "first batch after a restart, ms",
        "opening_ms": "that, less the median batch before, ms",
        "bytes_per_row": "bytes written per changed row",
        "files_per_batch": f"files per batch, of {PARTITIONS} workers",
    }
    lines = [f"| | {' | '.join(kinds)} | against the better |", "|---|---|---|---|---|"]
    panels = {
        name: {kind: [r[kind][key] for r in rounds] for kind in kinds}
        for key, name in names.items()
    }
    for key, name in names.items():
        cells = [harness.median_and_spread(panels[name][kind]) for kind in kinds]
        values = [{kind: r[kind][key] for kind in kinds} for r in rounds]
        against = harness.median_and_spread(harness.ratios(values, "megaphone", harness.PEERS))
        lines.append(f"| {name} | {' | '.join(cells)} | {against} |")
    result = {"arguments": vars(arguments), "rounds": rounds}
    harness.save("durability", result, "\n".join(lines) + "\n", harness.dots(panels, ""))


if __name__ == "__main__":
    main()
