# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: sessions, input files, batch durations, ratios against a round's
peers, results.

A round measures each subject once, in an order that turns from round to round; a ratio is always of
two values of one round. A result is a table, a plot with a dot a round, and the raw numbers, in
`results/`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from tqdm import tqdm

import spark_megaphone
from testkit import batch_files, folders

PROVIDERS = {
    "megaphone": "io.megaphone.BinnedStateStoreProvider",
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
PEERS = ["hdfs", "rocksdb"]
FORMAT, DEFAULT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion", 1
RESULTS = Path(__file__).parent / "results"
T = TypeVar("T")
OURS_COLOUR, PEERS_COLOUR = "#e07b39", "#1b4965"


def session(master: str, partitions: int, **conf: str) -> SparkSession:
    """A session with the plugin, whose file manager serves every provider alike."""
    builder = (
        SparkSession.builder.master(master)
        .appName("megaphone-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    )
    for key, value in conf.items():
        builder = builder.config(key.replace("__", "."), value)
    return spark_megaphone.configure(builder).getOrCreate()


def arguments(
    about: str, sizes: list[int], *, has_format: bool = False, **switches: str
) -> argparse.Namespace:
    """The command line of a benchmark over some numbers of keys, in either checkpoint format if it
    has a choice; what each switch does.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    if has_format:
        add_format(parser)
    for switch, what in switches.items():
        parser.add_argument(f"--{switch.replace('_', '-')}", action="store_true", help=what)
    return parser.parse_args()


def folder() -> AbstractContextManager[Path]:
    """A folder that is gone afterwards."""
    return folders.temporary("megaphone-bench-")


def write_batches(spark: SparkSession, to: Path, keys: int, rows: int, batches: int) -> None:
    """Writes one file a batch: first every key once, then `rows` updates of keys spread by a
    hash.
    """
    load = spark.range(keys).select(sf.col("id").alias("k"), sf.lit(0).cast("long").alias("v"))
    write_one(load, to, 0)
    for batch in range(1, batches):
        write_updates(spark, to, batch, keys, rows)


def write_updates(spark: SparkSession, to: Path, batch: int, keys: int, rows: int) -> None:
    """Writes the file of one batch: `rows` updates of keys spread by a hash."""
    ids = spark.range(batch * rows, (batch + 1) * rows)
    updates = ids.select(
        sf.pmod(sf.xxhash64("id"), sf.lit(keys)).alias("k"), sf.col("id").alias("v")
    )
    write_one(updates, to, batch)


def write_one(frame: DataFrame, to: Path, batch: int) -> None:
    """Writes the file of one batch, with these rows."""
    with folder() as staging:  # beside the source, which a stream may be listing right now
        frame.coalesce(1).write.mode("overwrite").parquet(str(staging))
        batch_files.place(next(staging.glob("part-*.parquet")), to, batch)


def stateless(stream: DataFrame) -> DataFrame:
    """The input and an exchange by key, with no state."""
    return stream.repartition("k").select("k", "v")


def wide_aggregate(stream: DataFrame) -> DataFrame:
    """About 96 bytes a key: a hash that does not compress, and two numbers."""
    return stream.groupBy(sf.md5(sf.col("k").cast("string")).alias("k")).agg(
        sf.count("*").alias("n"), sf.sum("v").alias("s")
    )


def benchmarks_jar() -> str:
    """Path of the jar with what the benchmarks have on the JVM, built where it is missing or
    old.
    """
    root = Path(__file__).parents[1]
    subprocess.run([str(root / "sbt"), "benchmarks/package"], check=True, capture_output=True)
    return str(
        next((root / "benchmarks/jvm/target/scala-2.13").glob("megaphone-benchmarks_*[0-9].jar"))
    )


def started(
    spark: SparkSession,
    source: Path,
    checkpoint: Path | str,
    query: Callable[[DataFrame], DataFrame],
    mode: str = "update",
) -> StreamingQuery:
    """Starts `query` over the files of `source`, one a batch; its rows go nowhere."""
    stream = batch_files.stream(spark, source, "k long, v long")
    writer = query(stream).writeStream.format("noop").outputMode(mode)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def use(spark: SparkSession, provider: str) -> None:
    """New queries keep their state so; nothing changes for one that has none."""
    if provider in PROVIDERS:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDERS[provider])


def use_format(spark: SparkSession, provider: str, version: int) -> None:
    """From now on the plugin's queries begin with that checkpoint format, others with Spark's
    default: the HDFS-backed provider has format 1 alone.
    """
    ours = provider.startswith("megaphone")
    spark.conf.set(FORMAT, str(version if ours else DEFAULT_FORMAT))


def add_format(parser: argparse.ArgumentParser) -> None:
    """The option that chooses the checkpoint format of the plugin's queries."""
    told = "the checkpoint format of the plugin's queries"
    parser.add_argument("--format", type=int, choices=(1, 2), default=DEFAULT_FORMAT, help=told)


def with_format(name: str, version: int) -> str:
    """The name of a result that another checkpoint format than Spark's default has given."""
    return name if version == DEFAULT_FORMAT else f"{name}-format-{version}"


def set_conf(spark: SparkSession, settings: Sequence[str]) -> None:
    """New queries have these settings, each `key=value`."""
    for setting in settings:
        spark.conf.set(*setting.split("=", 1))


def durations_ms(query: StreamingQuery) -> list[int]:
    """Of the batches that had input."""
    progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    return [int(p["durationMs"]["triggerExecution"]) for p in progress]


def batch_ms(
    spark: SparkSession,
    provider: str,
    source: Path,
    query: Callable[[DataFrame], DataFrame],
    mode: str = "update",
) -> list[int]:
    """Durations of all batches of `query` over the files of `source`, one a batch, on a new
    checkpoint.
    """
    use(spark, provider)
    with folder() as checkpoint:
        running = started(spark, source, checkpoint, query, mode)
        try:
            running.processAllAvailable()
            return durations_ms(running)
        finally:
            running.stop()


def rounds(
    name: str, count: int, subjects: Sequence[str], measure: Callable[[str], T]
) -> list[dict[str, T]]:
    """Measures each subject once a round. One more round goes first: it warms up what all share."""
    found: list[dict[str, T]] = [{} for _ in range(1 + count)]
    for number, subject in tqdm(list(turned(1 + count, subjects)), desc=name, unit="run"):
        found[number][subject] = measure(subject)
    return found[1:]


def ratios(rounds: Sequence[dict[str, float]], of: str, peers: Sequence[str]) -> list[float]:
    """By round: the value of `of` over that of the better peer."""
    return [r[of] / min(r[p] for p in peers) for r in rounds]


def median_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """`median (least-greatest)`."""
    three = statistics.median(values), min(values), max(values)
    middle, least, most = (f"{value:.{digits}f}" for value in three)
    return f"{middle} ({least}-{most})"


def slopes(medians: Mapping[str, Sequence[float]]) -> list[str]:
    """Lines: of each subject the value at the largest size over that at the smallest. The values
    are in the order of the sizes, the smallest first; none has a slope with one size alone.
    """
    lines = [f"- {of}: {each[-1] / each[0]:.2f}" for of, each in medians.items() if len(each) > 1]
    return ["", "Slope, largest over smallest size:", "", *lines] if lines else []


def turned(rounds: int, subjects: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each subject once a round, each round beginning with the next one."""
    for number in range(rounds):
        for place in range(len(subjects)):
            yield number, subjects[(place + number) % len(subjects)]


def save(name: str, result: dict[str, Any], table: str, chart: Figure) -> None:
    """Prints a result's table, and writes it beside its numbers and its plot."""
    print(table)
    (RESULTS / name).parent.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(table)
    chart.savefig(RESULTS / f"{name}.png", dpi=120)


def dots(panels: Mapping[str, Mapping[str, Sequence[float]]], unit: str) -> Figure:
    """A plot: a panel a title, in it a row a subject, with a dot a round and a line at the
    median.
    """
    height = 0.9 + sum(0.5 + 0.32 * len(rows) for rows in panels.values())
    figure = Figure(figsize=(8, height), layout="constrained")
    ratios = [1 + len(rows) for rows in panels.values()]
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=ratios)
    for axes, (title, rows) in zip(grid[:, 0], panels.items(), strict=True):
        for row, (subject, values) in enumerate(reversed(list(rows.items()))):
            colour = OURS_COLOUR if subject.startswith("megaphone") else PEERS_COLOUR
            axes.plot(values, [row] * len(values), "o", color=colour, alpha=0.5, markeredgewidth=0)
            middle = statistics.median(values)
            axes.plot([middle, middle], [row - 0.35, row + 0.35], color=colour)
            label = f"{middle:,.0f}" if middle >= 10 else f"{middle:.2g}"
            axes.annotate(label, (middle, row + 0.38), ha="center", fontsize=8, color=colour)
        axes.set_yticks(range(len(rows)), list(rows)[::-1])
        axes.set_ylim(-0.6, len(rows) - 0.2)
        axes.set_xlim(left=0)
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    grid[-1, 0].set_xlabel(unit)
    return figure
