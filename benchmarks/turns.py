# SPDX-License-Identifier: Apache-2.0
"""Measures one build, in a process of its own, a turn whenever `against.py` asks for one.

Each line on the input asks for a turn; its answer is a line on the output, `{figure: [value]}`. The
first turn has no figure: the work is warm after it. The end of the input ends the work.

`python benchmarks/turns.py BUILD WORK [--keys N] [--rows N] [--source FOLDER] [--groups N ...]`
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import durability
import harness
import memory
import steady
import step
from builds import Build

import spark_megaphone

Turn = dict[str, list[float]]
Turns = Generator[Turn, None, None]
# The query that waits for its turn looks for files, too: not so often that the other would notice.
WAITING = {"spark__sql__streaming__pollingDelay": "200ms"}
BATCHES_BETWEEN_STEPS = 3


def groups(files: Sequence[Path], sizes: Sequence[int]) -> Iterator[Sequence[Path]]:
    """The files, so many at a time."""
    begin = 0
    for size in sizes:
        yield files[begin : begin + size]
        begin += size


def write_source(build: Build, arguments: argparse.Namespace) -> Turns:
    """No measurement: the input of both builds' works, one file a batch."""
    spark = harness.session("local[2]", steady.PARTITIONS)
    batches = sum(arguments.groups)
    harness.write_batches(spark, arguments.source, arguments.keys, arguments.rows, batches)
    spark.stop()
    yield {}


def steady_batches(build: Build, arguments: argparse.Namespace) -> Turns:
    """A turn is a group of batches of a query that runs on; the first loads every key."""
    work = steady.WORKS[arguments.work]
    jars = {"spark__jars": build.benchmarks_jar} if arguments.work == "transform" else {}
    spark = harness.session(work.master, steady.PARTITIONS, **WAITING, **jars)
    harness.use(spark, "megaphone")
    with harness.folder() as files, harness.folder() as checkpoint:
        query = harness.started(spark, files, checkpoint, work.query, work.mode)
        done = 0
        for group in groups(sorted(arguments.source.iterdir()), arguments.groups):
            for file in group:
                (files / file.name).hardlink_to(file)
            # What looked for files just before is no proof that all have been processed.
            while len(durations := harness.durations_ms(query)) < done + len(group):
                query.processAllAvailable()
            yield {"batch": [float(ms) for ms in durations[done:]]} if done else {}
            done += len(group)
        query.stop()
    spark.stop()


def step_batches(build: Build, arguments: argparse.Namespace) -> Turns:
    """A turn is some batches, and two steps: half of the state moves, and moves back."""
    spark = harness.session(
        "local-cluster[2,1,3072]", 2, spark__executor__memory="2g", spark__driver__memory="2g"
    )
    harness.use(spark, "megaphone")
    with harness.folder() as files, harness.folder() as checkpoint:
        feed = step.Feed(spark, files, arguments.keys, arguments.rows)
        query = feed.start(checkpoint)
        for number, batches in enumerate(arguments.groups):
            figures: Turn = {"between": [float(feed.next(query)) for _ in range(batches)]}
            for mode in ("prepared", "direct"):
                figures[mode] = [float(step.half_moved(feed, query, mode)[0])]
            yield figures if number else {}
        query.stop()
    spark.stop()


def first_batches(build: Build, arguments: argparse.Namespace) -> Turns:
    """A turn is some restarts of the query, each with one batch; before the first it loads."""
    spark = harness.session("local[2]", durability.PARTITIONS)
    harness.use(spark, "megaphone")
    load, *restarts = groups(sorted(arguments.source.iterdir()), arguments.groups)
    with harness.folder() as files, harness.folder() as checkpoint:
        for file in load[:-1]:
            (files / file.name).hardlink_to(file)
        query = harness.started(spark, files, checkpoint, harness.wide_aggregate)
        query.processAllAvailable()
        query.stop()
        durability.first_batch(spark, files, checkpoint, load[-1])
        yield {}
        for group in restarts:
            yield {
                "first": [durability.first_batch(spark, files, checkpoint, file) for file in group]
            }
    spark.stop()


def heap(build: Build, arguments: argparse.Namespace) -> Turns:
    """The one turn: the heap of the query's process in MiB, and what it reports for its state."""
    found = memory.one(arguments.kind, arguments.keys)
    yield {}
    yield {name: [value] for name, value in found.items()}


WORKS = {
    "source": write_source,
    **dict.fromkeys(steady.WORKS, steady_batches),
    "step": step_batches,
    "recovery": first_batches,
    "memory": heap,
}


def main() -> None:
    """Answers turn after turn."""
    # The JVM writes to the output, too: what is not an answer goes to the errors.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--groups", type=int, nargs="+", default=[], help="batches of each turn")
    parser.add_argument("--kind", choices=memory.KINDS, default="megaphone")
    arguments = parser.parse_args()
    build = Build.read(arguments.build)
    if not Path(spark_megaphone.__file__).is_relative_to(build.package_folder):
        raise SystemExit(f"{spark_megaphone.__file__} is not in {build.package_folder}")
    harness.PROVIDERS["megaphone"] = build.provider
    with closing(WORKS[arguments.work](build, arguments)) as turns:
        for _ in sys.stdin:
            print(json.dumps(next(turns)), file=answers, flush=True)


if __name__ == "__main__":
    main()
