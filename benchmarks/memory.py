# SPDX-License-Identifier: Apache-2.0
"""What state takes of memory, each kind in a process of its own; and whether it stays so for a long
time.

`python benchmarks/memory.py [--keys 1000000] [--batches 2000]`; `--batches 0` leaves the long run
out.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness
from matplotlib.figure import Figure
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tqdm import tqdm

# Provider, and bins where it has any.
KINDS = {
    "megaphone": ("megaphone", "1024"),
    "megaphone, 64 bins": ("megaphone", "64"),
    "megaphone, 65,536 bins": ("megaphone", "65536"),
    "hdfs": ("hdfs", None),
    "rocksdb": ("rocksdb", None),
    "stateless": ("stateless", None),
}
UPDATES = 5
SAMPLES = 20


def used(spark: SparkSession) -> dict[str, float]:
    """Heap of the driver's JVM after a collection, and what the process takes of the machine, in
    MiB.
    """
    jvm: Any = spark._jvm
    for _ in range(3):
        jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    pid = jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{pid}/status").read_text()
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert resident is not None
    return {
        "heap_mib": (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
        "rss_mib": int(resident[1]) / 2**10,
    }


def one(kind: str, keys: int) -> dict[str, float]:
    """Memory of a query with so many keys, after some batches of updates; in this process."""
    provider, bins = KINDS[kind]
    conf = {} if bins is None else {"spark__megaphone__bins": bins}
    spark = harness.session("local[2]", 4, **conf)
    is_bare = provider == "stateless"
    harness.use(spark, provider)
    with harness.folder() as source, harness.folder() as checkpoint:
        harness.write_batches(spark, source, keys, keys // 20, 1 + UPDATES)
        query = harness.started(
            spark, source, checkpoint, harness.stateless if is_bare else harness.wide_aggregate
        )
        query.processAllAvailable()
        result = used(spark)
        progress: Any = query.lastProgress
        if not is_bare:
            result["reported_mib"] = progress["stateOperators"][0]["memoryUsedBytes"] / 2**20
        query.stop()
    spark.stop()
    return result


def long_run(batches: int) -> list[dict[str, float]]:
    """Samples of memory and files over so many batches of keys that come and are evicted; in this
    process.
    """
    conf = {
        "spark__sql__streaming__minBatchesToRetain": "10",
        "spark__megaphone__bins": "64",
        "spark__driver__memory": "1g",
        # The whole heap from the start: what the process grows by is not the collector's choice,
        # then.
        "spark__driver__extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch",
    }
    spark = harness.session("local[2]", 2, **conf)
    harness.use(spark, "megaphone")
    samples: list[dict[str, float]] = []
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5000)
    rows = stream.option("advanceMillisPerBatch", 1000).option("startTimestamp", 0).load()
    counts = (
        rows.withWatermark("timestamp", "5 seconds")
        .groupBy(sf.window("timestamp", "2 seconds"), (sf.col("value") % 20000).alias("k"))
        .count()
    )
    with harness.folder() as checkpoint:
        writer = counts.writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        state = checkpoint / "state"
        with tqdm(total=batches, desc="long run", unit="batch", file=sys.stderr) as bar:
            while len(samples) < SAMPLES:
                until = batches * (len(samples) + 1) // SAMPLES
                while (progress := query.lastProgress) is None or progress["batchId"] < until:
                    query.awaitTermination(1)
                bar.update(progress["batchId"] - bar.n)
                files = [f for f in state.rglob("*") if f.is_file()]
                kept = {"keys": progress["stateOperators"][0]["numRowsTotal"], "files": len(files)}
                samples.append({"batch": progress["batchId"], **used(spark), **kept})
        query.stop()
    spark.stop()
    return samples


def apart(*arguments: str) -> Any:
    """What this program prints with other arguments, in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1]
    )


def plot(per_key: dict[str, float], samples: list[dict[str, float]]) -> Figure:
    """Bytes a key by kind, and the long run over its batches."""
    if not samples:
        return harness.dots({"Heap": {kind: [b] for kind, b in per_key.items()}}, "bytes per key")
    figure = Figure(figsize=(8, 7), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    for row, (key, label) in zip(
        axes,
        (("heap_mib", "heap, MiB"), ("rss_mib", "process, MiB"), ("files", "files")),
        strict=True,
    ):
        row.plot(
            [s["batch"] for s in samples],
            [s[key] for s in samples],
            "o-",
            color=harness.OURS_COLOUR,
        )
        row.set_ylabel(label)
        row.set_ylim(bottom=0)
        row.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("batch")
    return figure


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=2000, help="of the long run")
    parser.add_argument(
        "--one", choices=KINDS, help="measures this kind alone, and prints what it found"
    )
    parser.add_argument(
        "--long", action="store_true", help="makes the long run alone, and prints its samples"
    )
    arguments = parser.parse_args()
    if arguments.one or arguments.long:
        print(
            json.dumps(
                one(arguments.one, arguments.keys) if arguments.one else long_run(arguments.batches)
            )
        )
        return
    keys = arguments.keys
    found = {
        kind: apart("--one", kind, "--keys", str(keys))
        for kind in tqdm(KINDS, desc="memory", unit="kind")
    }
    bare = found["stateless"]
    per_key = {
        k: (f["heap_mib"] - bare["heap_mib"]) * 2**20 / keys
        for k, f in found.items()
        if f is not bare
    }
    lines = [
        "| kind | heap bytes a key | reported bytes a key | process, MiB above that without state "
        "|",
        "|---|---|---|---|",
    ]
    for kind, on_heap in per_key.items():
        f = found[kind]
        reported, process = f["reported_mib"] * 2**20 / keys, f["rss_mib"] - bare["rss_mib"]
        lines.append(f"| {kind} | {on_heap:.0f} | {reported:.0f} | {process:.0f} |")
    lines += ["", f"Heap against HDFS-backed: {per_key['megaphone'] / per_key['hdfs']:.2f}"]
    many, few = per_key["megaphone, 65,536 bins"], per_key["megaphone, 64 bins"]
    lines += ["", f"65,536 bins against 64: {many / few:.2f}"]
    samples = apart("--long", "--batches", str(arguments.batches)) if arguments.batches else []
    if samples:
        half = len(samples) // 2
        for key in ("heap_mib", "rss_mib", "files"):
            early = statistics.median([s[key] for s in samples[half // 2 : half]])
            late = statistics.median([s[key] for s in samples[-(half // 2) :]])
            lines += [
                "",
                f"{key} in the last quarter of {arguments.batches} batches: {late:.0f}, second: "
                f"{early:.0f}",
            ]
    result = {"arguments": vars(arguments), "found": found, "samples": samples}
    harness.save("memory", result, "\n".join(lines) + "\n", plot(per_key, samples))


if __name__ == "__main__":
    main()
