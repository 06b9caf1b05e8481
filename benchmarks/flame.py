# SPDX-License-Identifier: Apache-2.0
"""Where the time of a steady batch goes: a flame of its tasks, and the share of each operation of
the store.

`python benchmarks/flame.py [--work aggregate] [--provider megaphone] [--batches 60]`

  1. The query runs once over all batches, for the compiler, and again while the JVM samples its
     threads.
  2. Samples of tasks are kept, each from the task's first frame to the method that was running.
  3. A sample belongs to the outermost call of the store in it: `get`, `put`, `commit` and so on, to
     opening the store, or to going on with a scan. What is left is Spark's own, and no store can
     change it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
import steady
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession

SAMPLE_MS = 10
TASK = "Executor$TaskRunner.run"
HANDLES = re.compile(r"(?:Binned|HDFSBacked|RocksDB)\w*(?:Reads|Store)\$?\.(\w+)")
OPENING = re.compile(r"StateStore\$?\.(get|getReadOnly)$")
# An iterator's steps, long after `iterator`.
SCANS = re.compile(r"^(megaphone\.BinnedRows|\w*StateStoreMap|RocksDB)\b")
# Frames that only lead from one to the next: lambdas, reflection, and traits' forwarding methods.
NOISE = re.compile(r"^\d+\.|\$anonfun\$|\.apply(\$mc\w+\$sp)?$|\$adapted$|\$$")
OWN = "Spark's own"
OURS = "megaphone."  # before the names of this plugin's methods
Stack = tuple[str, ...]


@dataclass
class Node:
    """A method in the flame: samples in it and below it, and what it called."""

    count: int = 0
    calls: dict[str, Node] = field(default_factory=dict)


def recorded(
    spark: SparkSession,
    provider: str,
    source: Path,
    query: Callable[[DataFrame], DataFrame],
    mode: str,
) -> list[Stack]:
    """The stacks of tasks, outermost frame first, that were sampled in one run over the files of
    `source`.
    """
    jvm = spark._jvm
    assert jvm is not None
    with harness.folder() as folder:
        file = folder / "samples.jfr"
        recording = jvm.jdk.jfr.Recording()
        recording.enable("jdk.ExecutionSample").withPeriod(
            jvm.java.time.Duration.ofMillis(SAMPLE_MS)
        )
        recording.start()
        harness.batch_ms(spark, provider, source, query, mode)
        recording.stop()
        recording.dump(jvm.java.io.File(str(file)).toPath())
        recording.close()
        tool = Path(jvm.java.lang.System.getProperty("java.home")) / "bin" / "jfr"
        printing = [str(tool), "print", "--json", "--stack-depth", "256", str(file)]
        printed = subprocess.run(printing, capture_output=True, text=True, check=True).stdout
    events: list[dict[str, Any]] = json.loads(printed)["recording"]["events"]
    return list(_stacks(events))


def _stacks(events: list[dict[str, Any]]) -> Iterator[Stack]:
    for event in events:
        frames = (event["values"].get("stackTrace") or {}).get("frames", [])
        names = [_name(frame["method"]) for frame in reversed(frames)]
        if TASK in names:
            yield tuple(names[names.index(TASK) + 1 :])


def _name(method: dict[str, Any]) -> str:
    kind = method["type"]["name"].replace("/", ".")
    return f"{OURS if 'megaphone' in kind else ''}{kind.rsplit('.', 1)[-1]}.{method['name']}"


def part_of(stack: Stack) -> str:
    """What a sample's time went to."""
    for frame in stack:
        if OPENING.search(frame):
            return "open"
        if found := HANDLES.search(frame):
            return found.group(1)
        if SCANS.search(frame):
            return "scan"
    return OWN


def shares(parts: Counter[str]) -> str:
    """The table: percent of all samples by part."""
    rows = [
        f"| {part} | {100 * count / parts.total():.1f} |" for part, count in parts.most_common()
    ]
    return "\n".join(["| part | % of the tasks' time |", "|---|---|", *rows]) + "\n"


def drawn(stacks: list[Stack], title: str) -> Figure:
    """The flame: a box for each method, as wide as its share, above the one that called it."""
    root = Node()
    for stack in stacks:
        at = root
        at.count += 1
        for frame in (f for f in stack if not NOISE.search(f)):
            at = at.calls.setdefault(frame, Node())
            at.count += 1
    boxes = list(_boxes(root, 0.0, 0, root.count))
    depth = 1 + max(level for _, _, level, _ in boxes)
    figure = Figure(figsize=(18, 1 + 0.2 * depth), layout="constrained")
    axes = figure.subplots()
    for name, left, level, width in boxes:
        colour = harness.OURS_COLOUR if name.startswith(OURS) else "#9fb8c8"
        axes.barh(
            level, width, height=0.95, left=left, color=colour, edgecolor="white", linewidth=0.4
        )
        letters = int(width * 2.6)  # that fit: the plot is a hundred units wide
        if letters > 3:
            axes.text(
                left + 0.1,
                level,
                name.removeprefix(OURS)[:letters],
                fontsize=5,
                va="center",
                clip_on=True,
                parse_math=False,
            )
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the tasks' time")
    axes.set_yticks([])
    axes.set_title(title)
    return figure


def _boxes(
    node: Node, left: float, level: int, total: int
) -> Iterator[tuple[str, float, int, float]]:
    """Name, left edge, level and width, in percent, of what is wide enough to be seen."""
    for name, called in sorted(node.calls.items()):
        width = 100 * called.count / total
        if width >= 0.2:
            yield name, left, level, width
            yield from _boxes(called, left, level + 1, total)
        left += width


def main() -> None:
    """Records, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", choices=[w for w in steady.WORKS if w != "wide"], default="aggregate"
    )
    parser.add_argument("--provider", choices=harness.PROVIDERS, default="megaphone")
    parser.add_argument("--batches", type=int, default=60)
    arguments = parser.parse_args()
    work = steady.WORKS[arguments.work]
    conf = {
        "spark__driver__extraJavaOptions": "-XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints"
    }
    spark = harness.session(
        work.master, steady.PARTITIONS, **conf, **steady.settings([arguments.work])
    )
    with harness.folder() as source:
        harness.write_batches(spark, source, work.keys, steady.ROWS, 1 + arguments.batches)
        harness.batch_ms(spark, arguments.provider, source, work.query, work.mode)
        stacks = recorded(spark, arguments.provider, source, work.query, work.mode)
    spark.stop()
    name = f"flame-{arguments.work}-{arguments.provider}"
    title = (
        f"{arguments.work} on {arguments.provider}: "
        f"{len(stacks)} samples of {arguments.batches} batches"
    )
    parts = Counter(part_of(stack) for stack in stacks)
    harness.save(
        name, {"arguments": vars(arguments), "parts": parts}, shares(parts), drawn(stacks, title)
    )


if __name__ == "__main__":
    main()
