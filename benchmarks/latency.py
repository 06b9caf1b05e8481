# SPDX-License-Identifier: Apache-2.0
"""Latency over time while a part of the state moves: an open loop, as in Megaphone's evaluation
(VLDB 19, section 5).

`python benchmarks/latency.py [--keys 1000000 …] [--shape wide …] [--by uniform zipf]
[--rate 60000] [--one-in 2] [--link 50] [--memory 3g] [--rounds 5] [--ways …]`

  1. Rows come to a warm query at a fixed rate: see `openloop.py`. With `--link`, all that processes
     tell each other goes over one link of so many MB a second: see `link.py`.
  2. By turns, each mode and strategy moves half of the bins there or back, or another part. A round
     has some idle seconds, the plan, and some seconds after its end.
  3. A round's ratio is that of the greatest latency of the plan to the 99th percentile of the idle
     seconds before. Its interruption is the longest time between the ends of two batches, less the
     median of such times in the idle seconds: for so much longer than usual there is no result. The
     first results after the step come with the end of its batch, so that batch is what a hot key
     waits for.
  4. The slope of a way to move is its ratio with the most keys over that with the fewest. Beside
     the ways, once, Spark's own: stop, repartition offline, start again. There is no result
     meanwhile, so all of it is an interruption. It is measured where the shape is `wide`.

Mode replicated needs `--conf spark.megaphone.replicas=1`.

The plot has a panel for each mode and strategy: the latencies of the round whose ratio is the
median, in each quarter of a second, with the steps marked.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import harness
import link
from matplotlib.figure import Figure
from openloop import BY, PATIENCE_S, SHAPES, TICK_S, OpenLoop, loop
from step import (
    BELOW_TASKS,
    CONTROL,
    STRATEGIES,
    came_bytes,
    moves_of,
    offline,
    offline_told,
)
from tqdm import tqdm

from spark_megaphone import Megaphone

SHOWN_S = 0.25
IDLE_S, AFTER_S = 8.0, 3.0
MODES = ("prepared", "on-demand", "direct", "replicated")
WAYS = [CONTROL, *map(" ".join, itertools.product(MODES, STRATEGIES))]
# Those that are measured if none is named.
SHOWN = [
    CONTROL,
    "prepared all-at-once",
    "prepared batched",
    "prepared optimized",
    "on-demand all-at-once",
    "on-demand batched",
    "direct all-at-once",
    "direct batched",
]


@dataclass
class Round:
    """What a way to move did to the rows that were due meanwhile.

    Attributes:
        due_s: When the rows of each tick were due, from the plan's submission on.
        latency_ms: Theirs.
        gaps_ms: When each batch ended, in s, and how long after the one before it, in ms.
        steps_s: When the batches ended that took steps.
        step_ms: What the slowest of these batches took.
        batches_before: From the plan's submission to its first step.
        seconds: From the plan's submission to its end.
        moved_bytes: What was alive of the bins that moved.
        came_bytes: What came to the targets.
    """

    due_s: list[float]
    latency_ms: list[float]
    gaps_ms: list[tuple[float, float]]
    steps_s: list[float] = field(default_factory=list)
    step_ms: float = 0.0
    batches_before: int = 0
    seconds: float = 0.0
    moved_bytes: float = 0.0
    came_bytes: float = 0.0

    def _between(self, first_s: float, last_s: float) -> list[float]:
        pairs = zip(self.due_s, self.latency_ms, strict=True)
        return [latency for due, latency in pairs if first_s <= due < last_s]

    @property
    def spans(self) -> list[tuple[float, int, int, int]]:
        """By quarter of a second: when it began, and the median latency in it, the 99th percentile
        and the greatest.
        """
        spans: dict[float, list[float]] = {}
        for due, late in zip(self.due_s, self.latency_ms, strict=True):
            spans.setdefault(due // SHOWN_S * SHOWN_S, []).append(late)
        return [
            (t, round(statistics.median(of)), round(p99(of)), round(max(of)))
            for t, of in spans.items()
        ]

    @property
    def numbers(self) -> dict[str, Any]:
        """All of it, with latencies by quarters of a second."""
        told = {k: v for k, v in vars(self).items() if k not in ("due_s", "latency_ms")}
        derived = {k: getattr(self, k) for k in ("idle_p99_ms", "ratio", "interruption_ms")}
        return {**told, **derived, "spans": self.spans}

    @property
    def idle_ms(self) -> list[float]:
        """Before the plan."""
        return self._between(-IDLE_S, 0)

    @property
    def worst_ms(self) -> float:
        """Of the plan, until some seconds after its end."""
        return max(self._between(0, self.seconds + AFTER_S))

    @property
    def idle_p99_ms(self) -> float:
        """The 99th percentile before the plan."""
        return p99(self.idle_ms)

    @property
    def ratio(self) -> float:
        """How much later the latest row was than nearly all idle ones."""
        return self.worst_ms / self.idle_p99_ms

    @property
    def interruption_ms(self) -> float:
        """For how much longer than usual there was no result."""
        idle = [gap for ended_s, gap in self.gaps_ms if ended_s < 0]
        meanwhile = [gap for ended_s, gap in self.gaps_ms if ended_s >= 0]
        return max(meanwhile) - statistics.median(idle)


def p99(values: list[float]) -> float:
    """The 99th percentile; of few values it lies between the last two."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


def measured(running: OpenLoop, way: str, one_in: int) -> Round:
    """One round of one way to move."""
    time.sleep(IDLE_S)
    begun_s, submitted = time.time(), running.newest
    if way == CONTROL:
        time.sleep(IDLE_S)
        return after(running, begun_s, [])
    mode, strategy = way.split()
    megaphone = Megaphone(running.query)
    moves = moves_of(running.query, strategy, one_in)
    live = sum(megaphone.workers()["bytes"].to_pylist())
    moved = live * len(moves) / len(megaphone.bins())
    plan = megaphone.move(moves, strategy=strategy, mode=mode)
    plan.wait(timeout=PATIENCE_S, progress=False)
    steps = sorted(step.batch for step in plan.steps if step.batch is not None)
    came = came_bytes(megaphone, submitted + 1)
    found = after(running, begun_s, steps)
    found.batches_before = steps[0] - submitted - 1
    found.moved_bytes = moved
    found.came_bytes = came
    return found


def after(running: OpenLoop, begun_s: float, steps: list[int]) -> Round:
    """What the rows met since the submission, and some seconds from now on."""
    seconds = time.time() - begun_s
    time.sleep(AFTER_S)
    due_s, late_ms = running.latencies(begun_s - IDLE_S, begun_s + seconds + AFTER_S)
    with_steps = [running.ended[batch] for batch in steps]
    ends_s = sorted(
        batch.end_s - begun_s
        for batch in list(running.ended.values())
        if -2 * IDLE_S <= batch.end_s - begun_s < seconds + AFTER_S
    )
    return Round(
        [due - begun_s for due in due_s],
        late_ms,
        [(end, (end - last) * 1000) for last, end in itertools.pairwise(ends_s)],
        [batch.end_s - begun_s for batch in with_steps],
        max(((b.end_s - b.begun_s) * 1000 for b in with_steps), default=0.0),
        seconds=seconds,
    )


def median_round(rounds: list[Round]) -> Round:
    """The one whose ratio is in the middle."""
    return sorted(rounds, key=lambda r: r.ratio)[(len(rounds) - 1) // 2]


def chart(title: str, rounds: dict[str, list[Round]]) -> Figure:
    """A panel a way to move: latencies by quarters of a second, with the steps marked."""
    figure = Figure(figsize=(8, 1.0 + 1.5 * len(rounds)), layout="constrained")
    grid = figure.subplots(len(rounds), 1, squeeze=False, sharey=True)[:, 0]
    figure.suptitle(title, fontsize=11)
    for axes, (way, of) in zip(grid, rounds.items(), strict=True):
        shown = median_round(of)
        times, middle_ms, nearly_most_ms, most_ms = zip(*shown.spans, strict=True)
        colour = harness.PEERS_COLOUR if way.startswith("direct") else harness.OURS_COLOUR
        axes.plot(times, most_ms, color=colour, label="max")
        axes.plot(times, nearly_most_ms, color=colour, linestyle="dotted", label="p99")
        axes.plot(times, middle_ms, color=colour, alpha=0.4, label="p50")
        for step in shown.steps_s:
            axes.axvline(step, color="grey", linewidth=0.6)
        axes.set_title(way, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylim(0, 1.05 * max(max(median_round(of).latency_ms) for of in rounds.values()))
    grid[0].legend(fontsize=8, frameon=False, loc="upper right")
    grid[-1].set_xlabel("s from the submission")
    grid[len(grid) // 2].set_ylabel("latency, ms")
    return figure


def table(rounds: dict[str, list[Round]], link_mb: int) -> list[str]:
    """The table's lines."""
    lines = [
        "| way to move | worst latency / idle p99 (spread) | worst ms | interruption, ms | "
        "idle p50, p99 | batches until the first step | slowest batch with a step, ms (spread) | "
        "s | of them, what the link needs | bytes / live |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for way, of in rounds.items():
        moved = statistics.median([r.moved_bytes for r in of])
        came = statistics.median([r.came_bytes for r in of])
        cells = [
            way,
            harness.median_and_spread([r.ratio for r in of]),
            f"{statistics.median([r.worst_ms for r in of]):.0f}",
            f"{statistics.median([r.interruption_ms for r in of]):.0f}",
            f"{statistics.median([statistics.median(r.idle_ms) for r in of]):.0f}, "
            f"{statistics.median([r.idle_p99_ms for r in of]):.0f}",
            f"{statistics.median([r.batches_before for r in of]):.0f}",
            harness.median_and_spread([r.step_ms for r in of], digits=0),
            f"{statistics.median([r.seconds for r in of]):.1f}",
            f"{moved / link_mb / 1e6:.1f}" if link_mb else "-",
            f"{came / moved:.2f}" if moved else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def slopes(by_keys: dict[int, dict[str, list[Round]]]) -> list[str]:
    """How much the ratios, and the slowest batches with a step, grow from the fewest to the most
    keys.
    """
    least, most = by_keys[min(by_keys)], by_keys[max(by_keys)]
    lines = [f"From {min(by_keys)} to {max(by_keys)} keys, largest over smallest:", ""]
    for way in least:
        before, then = least[way], most[way]
        told = f"the ratio {growth([r.ratio for r in before], [r.ratio for r in then])}"
        if way != CONTROL:
            of_steps = growth([r.step_ms for r in before], [r.step_ms for r in then])
            told += f", the batch with a step {of_steps}"
        lines.append(f"- {way}: {told}")
    return lines


def growth(least: list[float], most: list[float]) -> str:
    """The one median over the other."""
    return f"{statistics.median(most) / statistics.median(least):.2f}"


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--by", nargs="+", choices=BY, default=list(BY))
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=["wide"])
    parser.add_argument("--rate", type=int, default=60_000, help="rows a second")
    parser.add_argument("--one-in", type=int, default=2, help="bins of which one moves")
    parser.add_argument("--link", type=int, default=0, help="MB a second between processes")
    parser.add_argument("--memory", default="3g", help="of each executor")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=SHOWN)
    parser.add_argument("--conf", nargs="*", default=[], help="key=value, for the queries")
    parser.add_argument("--no-offline", action="store_true", help="leaves Spark's own way out")
    return parser.parse_args()


def main() -> None:
    """Measures, prints and saves."""
    arguments = options()
    link.limit(arguments.link)
    mib = int(arguments.memory.removesuffix("g")) * 1024
    spark = harness.session(
        f"local-cluster[2,1,{mib}]",
        2,
        spark__executor__memory=arguments.memory,
        spark__executor__extraJavaOptions=BELOW_TASKS,
    )
    harness.set_conf(spark, arguments.conf)
    found: dict[int, dict[str, float]] = {}  # Spark's own way, by keys
    for shape, by in itertools.product(arguments.shape, arguments.by):
        by_keys: dict[int, dict[str, list[Round]]] = {}
        for keys in arguments.keys:
            rounds = by_keys.setdefault(keys, {way: [] for way in arguments.ways})
            with loop(spark, SHAPES[shape], by, keys, arguments.rate) as running:
                for mode in {way.split()[0] for way in rounds} - {CONTROL}:
                    # Not counted: it warms up the movers.
                    measured(running, f"{mode} all-at-once", arguments.one_in)
                turns = list(harness.turned(arguments.rounds, list(rounds)))
                for _, way in tqdm(turns, desc=f"{shape}, {by}, {keys} keys", unit="plan"):
                    rounds[way].append(measured(running, way, arguments.one_in))
            save(arguments, shape, by, keys, rounds)
        if len(by_keys) > 1:
            save_slopes(arguments, shape, by, by_keys)
        if not arguments.no_offline and shape == "wide":
            for keys in set(by_keys) - set(found):
                found[keys] = offline(spark, keys, int(arguments.rate * TICK_S))
            save_offline(arguments, by, by_keys, found)
    spark.stop()


def name_of(arguments: argparse.Namespace, *words: object) -> str:
    """What a result is called."""
    part = [] if arguments.one_in == 2 else ["one-in", arguments.one_in]
    return "-".join(map(str, ["latency", *words, *part]))


def save(
    arguments: argparse.Namespace, shape: str, by: str, keys: int, rounds: dict[str, list[Round]]
) -> None:
    """A table, a plot and the numbers of one query."""
    over = f" over {arguments.link} MB/s" if arguments.link else ""
    title = (
        f"{keys} keys, {by}, {arguments.rate} rows a second, {shape}; "
        f"one in {arguments.one_in} bins moves{over}"
    )
    numbers = {way: [r.numbers for r in of] for way, of in rounds.items()}
    harness.save(
        name_of(arguments, shape, by, keys),
        {"arguments": vars(arguments), "rounds": numbers},
        "\n".join([f"{title}:", "", *table(rounds, arguments.link)]) + "\n",
        chart(title, rounds),
    )


def save_slopes(
    arguments: argparse.Namespace, shape: str, by: str, by_keys: dict[int, dict[str, list[Round]]]
) -> None:
    """What became of one query as its state grew."""
    panels = {
        f"{keys} keys: worst latency / idle p99": {
            f"megaphone, {way}": [r.ratio for r in of] for way, of in rounds.items()
        }
        for keys, rounds in by_keys.items()
    }
    harness.save(
        name_of(arguments, shape, by, "slopes"),
        {"arguments": vars(arguments), "ratios": panels},
        "\n".join(slopes(by_keys)) + "\n",
        harness.dots(panels, "times"),
    )


def save_offline(
    arguments: argparse.Namespace,
    by: str,
    by_keys: dict[int, dict[str, list[Round]]],
    found: dict[int, dict[str, float]],
) -> None:
    """Spark's own way with each number of keys, beside the interruptions of this run."""
    lines = ["Spark's own way, once, over the interruption of each way to move:", ""]
    for keys, rounds in by_keys.items():
        whole_s = sum(found[keys].values())
        lines.append(f"- {keys} keys: {offline_told(found[keys])}")
        for way in [way for way in rounds if way != CONTROL]:
            times = [whole_s * 1000 / r.interruption_ms for r in rounds[way]]
            lines.append(f"  - {way}: {harness.median_and_spread(times, digits=0)} times as long")
    panels = {
        f"{keys} keys": {"spark": [sum(found[keys].values())]}
        | {f"megaphone, {way}": [r.interruption_ms / 1000 for r in of] for way, of in rs.items()}
        for keys, rs in by_keys.items()
    }
    harness.save(
        name_of(arguments, "wide", by, "offline"),
        {
            "arguments": vars(arguments),
            "offline": {keys: found[keys] for keys in by_keys},
            "interruptions_s": panels,
        },
        "\n".join(lines) + "\n",
        harness.dots(panels, "s without a result, beyond those between two batches"),
    )


if __name__ == "__main__":
    main()
