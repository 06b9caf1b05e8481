# SPDX-License-Identifier: Apache-2.0
"""The working tree's jar against that of another commit, by turns in one run.

`python benchmarks/against.py [COMMIT] [--works aggregate step …] [--rounds 5] [--scale 1]`

  1. Both are built: the commit once, the working tree for each run. Each is measured with its own
     Python package and its own JVM benchmarks, by the measuring code of the working tree.
  2. Each round starts a process for each of the two, lets both get warm, and then asks one after
     the other for some batches, or for an iteration of a store operation, in an order that turns:
     what slows the machine slows both.
  3. A round's ratio is that of the two medians of its values; the result is the median of the
     rounds' ratios. The exit status is 1 if one is above its limit.

Against `HEAD`, with no change, the ratios show the noise of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import builds
import harness
import operations
import steady
from builds import Build
from tqdm import tqdm

COMMIT = "62b4825"  # the last one before the runtime was taken out of the plugin
LIMIT = 1.03
HEAP_LIMIT = 1.03
REPORTED_LIMIT = 1.001
OPERATIONS = ["putNew", "putOverwrite", "get", "remove", "scan", "putAndCommit"]
# Two processes of one build differ by a tenth in what an operation takes, so a round has several.
PROCESSES = 6
WARM_ITERATIONS, ITERATIONS = 8, 8
ITERATION = "250ms"
LOG = builds.BUILDS / "log.txt"
Figures = dict[str, dict[str, list[float]]]  # by figure and build, the values of one round


@dataclass(frozen=True)
class Work:
    """How large a work is: its keys, the rows of a batch, and the batches of each turn.

    The first turn is not measured. It loads every key.
    """

    keys: int
    rows: int = 0
    turns: tuple[int, ...] = ()
    has_source: bool = True


STEADY = (21, *[4] * 9)
WORKS = {
    "aggregate": Work(400_000, 100_000, STEADY),
    "join": Work(400_000, 100_000, STEADY),
    "sessions": Work(400_000, 100_000, STEADY),
    "transform": Work(400_000, 100_000, STEADY),
    # A step's batch differs by a fifth from one to the next, so a round has many of them.
    "step": Work(400_000, 25_000, (8, *[3] * 10), has_source=False),
    "recovery": Work(500_000, 25_000, (9, *[2] * 4)),
    "operations": Work(30_000),  # more would measure the memory of a shared machine
    "memory": Work(1_000_000),
}
DEFAULT_WORKS = ["aggregate", "step", "recovery", "operations", "memory"]


@dataclass(frozen=True)
class Figure:
    """A row of the table: what its name is, a round's value of the work's values, its limit."""

    title: str
    work: str
    key: str
    value: Callable[[Sequence[float]], float] = statistics.median
    limit: float | None = LIMIT


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


FIGURES = [
    *(Figure(f"steady {work}, p50, ms", work, "batch") for work in steady.WORKS),
    # The slowest of a round's few batches, whatever slowed it: shown, and not judged.
    *(Figure(f"steady {work}, p99, ms", work, "batch", p99, None) for work in steady.WORKS),
    Figure("batch between steps, ms", "step", "between"),
    Figure("batch of a prepared step, ms", "step", "prepared"),
    Figure("batch of a direct step, ms", "step", "direct"),
    Figure("first batch after a restart, ms", "recovery", "first"),
    *(Figure(f"{name}, ns per row", "operations", name) for name in operations.OPERATIONS),
    # The heap of one jar differs by some MiB from process to process; a state of a million keys has
    # 130. What the store counts itself is the same each time, but for rounding.
    Figure("heap bytes a key", "memory", "heap", limit=HEAP_LIMIT),
    Figure("reported bytes a key", "memory", "reported", limit=REPORTED_LIMIT),
]


class Subject:
    """The process that measures one build; one thread may use it."""

    def __init__(self, build: Path, work: str, command: Sequence[str]) -> None:
        self.work = work
        self.log = LOG.open("a")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=os.environ | {"PYTHONPATH": Build.read(build).package_folder},
            text=True,
        )

    @staticmethod
    def of_query(build: Path, work: str, *options: str) -> Subject:
        """The process of a work that a Spark session runs; a turn is some batches."""
        turns = Path(__file__).with_name("turns.py")
        return Subject(build, work, [sys.executable, str(turns), str(build), work, *options])

    @staticmethod
    def of_operation(build: Path, tree: Path, operation: str) -> Subject:
        """The process of a store operation, by JMH; a turn is an iteration.

        The tree's benchmarks stand last in the class path: all that is taken of them is ByTurns.
        """
        java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else "java"
        own, of_tree = Build.read(build), Build.read(tree)
        class_path = os.pathsep.join([own.jmh_class_path, of_tree.benchmarks_jar])
        output = LOG.with_name(f"jmh-{own.name}.txt")
        return Subject(
            build,
            operation,
            [
                *(str(java), "-Djmh.ignoreLock=true", *of_tree.jmh_java_options, "-cp", class_path),
                *("org.openjdk.jmh.Main", "-f", "0", "-prof", "io.megaphone.benchmarks.ByTurns"),
                *("-wi", str(WARM_ITERATIONS), "-i", str(ITERATIONS)),
                *("-w", ITERATION, "-r", ITERATION, "-p", "provider=megaphone"),
                *("-p", f"keys={WORKS['operations'].keys}", "-foe", "true", "-o", str(output)),
                # How objects lie after the load is chance, until a collection has moved them.
                *("-gc", "true"),
                rf"\.{operation}$",
            ],
        )

    def ask(self) -> None:
        """Lets it begin its next turn. If the process has died, `answer` tells it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, list[float]]:
        """The values of the turn, once it has ended. Raises `RuntimeError` if the process died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"The process of {self.work} ended without an answer; see {LOG.parent}/*.txt"
            )
        found: dict[str, list[float]] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends it, and waits until it has ended."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.log.close()


@contextmanager
def subjects(of: dict[str, Path], work: str, *options: str) -> Iterator[dict[str, Subject]]:
    """The processes of both builds, warm; they have ended afterwards."""
    with ExitStack() as stack:
        found = {}
        for name, build in of.items():
            found[name] = Subject.of_query(build, work, *options)
            stack.callback(found[name].close)
        for subject in found.values():
            subject.ask()
        for subject in found.values():
            subject.answer()
        yield found


def by_turns(of: dict[str, Path], name: str, rounds: int) -> list[Figures]:
    """The rounds of a work that a Spark session runs."""
    work = WORKS[name]
    found: list[Figures] = []
    turns = len(work.turns) - 1
    size = ("--keys", str(work.keys), "--rows", str(work.rows))
    with (
        harness.folder() as source,
        tqdm(total=rounds * turns * len(of), desc=name, unit="turn") as bar,
    ):
        options = (*size, "--source", str(source), "--groups", *map(str, work.turns))
        if work.has_source:
            tree = {"tree": of["tree"]}
            with subjects(tree, "source", *options):
                pass
        for number in range(rounds):
            figures: Figures = {}
            names = list(of)[::-1] if number % 2 else list(of)
            with subjects(of, name, *options) as both:
                for _, subject in harness.turned(turns, names):
                    both[subject].ask()
                    for key, values in both[subject].answer().items():
                        figures.setdefault(key, {}).setdefault(subject, []).extend(values)
                    bar.update()
            found.append(figures)
    return found


def store_operations(of: dict[str, Path], names: list[str], rounds: int) -> list[Figures]:
    """The rounds of single operations: nanoseconds per row, one value a pair of processes."""
    found: list[Figures] = [{n: {build: [] for build in of} for n in names} for _ in range(rounds)]
    pairs = [
        (number, pair, n) for number in range(rounds) for pair in range(PROCESSES) for n in names
    ]
    for number, pair, name in tqdm(pairs, desc="operations", unit="pair"):
        order = list(of)[::-1] if pair % 2 else list(of)
        for build, scores in scores_by_turns(of, name, order).items():
            found[number][name][build].append(statistics.median(scores))
    return found


def scores_by_turns(
    of: dict[str, Path], operation: str, order: Sequence[str]
) -> dict[str, list[float]]:
    """The iterations of an operation once it is warm, by build: a process for each build."""
    found: dict[str, list[float]] = {build: [] for build in order}
    with ExitStack() as stack:
        both = {}
        for build in order:
            both[build] = Subject.of_operation(of[build], of["tree"], operation)
            stack.callback(both[build].close)
        for turn, build in harness.turned(WARM_ITERATIONS + ITERATIONS, order):
            both[build].ask()
            score = both[build].answer()["score"]
            if turn >= WARM_ITERATIONS:
                found[build] += score
    return found


def heap_per_key(of: dict[str, Path], rounds: int) -> list[Figures]:
    """The rounds of the heap: bytes a key above the heap of a query with no state."""
    keys = WORKS["memory"].keys

    def mib(kind: str) -> dict[str, dict[str, list[float]]]:
        with subjects(of, "memory", "--keys", str(keys), "--kind", kind) as both:
            for subject in both.values():
                subject.ask()
            return {name: subject.answer() for name, subject in both.items()}

    found: list[Figures] = []
    for _ in tqdm(range(rounds), desc="memory", unit="round"):
        bare = mib("stateless")
        figures: Figures = {"heap": {}, "reported": {}}
        for name, values in mib("megaphone").items():
            above = values["heap_mib"][0] - bare[name]["heap_mib"][0]
            figures["heap"][name] = [above * 2**20 / keys]
            figures["reported"][name] = [values["reported_mib"][0] * 2**20 / keys]
        found.append(figures)
    return found


def told(
    rounds: dict[str, list[Figures]], old: str
) -> tuple[list[str], dict[str, dict[str, list[float]]], bool]:
    """The table's lines, the panels of the plot, and whether all are within their limits."""
    lines = [
        f"| figure | {old} | tree | tree / {old} (spread) | at most | |",
        "|---|---|---|---|---|---|",
    ]
    panels: dict[str, dict[str, list[float]]] = {}
    is_good = True
    for figure in FIGURES:
        of = [
            {name: figure.value(values) for name, values in one[figure.key].items()}
            for one in rounds.get(figure.work, [])
            if figure.key in one
        ]
        if not of:
            continue
        ratios = harness.ratios(of, "tree", [old])
        medians = [f"{statistics.median([one[name] for one in of]):.4g}" for name in (old, "tree")]
        verdict = ""
        if figure.limit is not None and statistics.median(ratios) > figure.limit:
            verdict = "above, in each round" if min(ratios) > figure.limit else "above"
            is_good = False
        limit = "-" if figure.limit is None else f"{figure.limit:g}"
        ratio = f"{statistics.median(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"
        lines.append(f"| {figure.title} | {' | '.join(medians)} | {ratio} | {limit} | {verdict} |")
        panels[figure.title] = {
            "megaphone, tree": [one["tree"] for one in of],
            old: [one[old] for one in of],
        }
    return lines, panels, is_good


def main() -> int:
    """Measures, prints and saves; 1 if a ratio is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default=COMMIT)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=DEFAULT_WORKS)
    parser.add_argument(
        "--operations", nargs="+", choices=operations.OPERATIONS, default=OPERATIONS
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1, help="of keys and rows, to try it out")
    arguments = parser.parse_args()
    for name, work in WORKS.items():
        keys, rows = (int(arguments.scale * n) for n in (work.keys, work.rows))
        WORKS[name] = replace(work, keys=keys, rows=rows)
    commit = builds.full_hash(arguments.commit)
    old = commit[:7]
    of = {old: builds.of_commit(commit), "tree": builds.of_tree()}
    LOG.unlink(missing_ok=True)
    rounds: dict[str, list[Figures]] = {}
    for name in arguments.works:
        if name == "operations":
            rounds[name] = store_operations(of, arguments.operations, arguments.rounds)
        elif name == "memory":
            rounds[name] = heap_per_key(of, arguments.rounds)
        else:
            rounds[name] = by_turns(of, name, arguments.rounds)
    lines, panels, is_good = told(rounds, old)
    result: dict[str, Any] = {
        "arguments": vars(arguments),
        "commits": {name: Build.read(file).commit for name, file in of.items()},
        "rounds": rounds,
    }
    is_whole = arguments.works == DEFAULT_WORKS
    name = "-".join([old, *([] if is_whole else arguments.works)])
    harness.save(f"against/{name}", result, "\n".join(lines) + "\n", harness.dots(panels, ""))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
