# SPDX-License-Identifier: Apache-2.0
"""The demo from beginning to end: cluster, queries, what is done to them, and what came of it."""

import argparse
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from demo import burst, picture, report, scenario, workload
from demo.burst import Burst
from demo.workload import Workload
from spark_megaphone import configure
from testkit.cluster import Cluster, standalone_cluster

OUTPUT = Path("target/demo")


def main() -> int:
    """Runs the demo; gives the exit status, which is 0 only if every answer was right."""
    options = _options()
    # A polite kill ends the demo as Ctrl-C does: by leaving the `with` blocks.
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=OUTPUT)).resolve()
    began = time.monotonic()
    try:
        outcome, after = _run(options, folder, began + options.limit)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        print("\nInterrupted; everything is stopped.", file=sys.stderr)
        return 130
    except Exception:
        print(f"\nLogs and files of this run: {folder}", file=sys.stderr)
        raise
    image = OUTPUT / "batches.png"
    print(report.table(outcome))
    print(report.verdict(outcome))
    print(report.burst(after))
    picture.draw(outcome, image)
    print(f"Picture: {image}. It took {time.monotonic() - began:.0f} s.")
    if outcome.is_right and not after.wrong:
        shutil.rmtree(folder, ignore_errors=True)
        return 0
    print(f"Logs and files of this run: {folder}")
    return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--rows", type=int, help="run over so many generated rows instead of the flights"
    )
    parser.add_argument("--keys", type=int, help="generated keys (default: a fifth of the rows)")
    parser.add_argument(
        "--burst-keys",
        type=int,
        default=burst.KEYS,
        help=f"keys of the last act (default: {burst.KEYS:,})",
    )
    parser.add_argument(
        "--every", type=float, default=2.0, help="seconds between batches (default: 2)"
    )
    parser.add_argument("--limit", type=float, default=285.0, help="seconds for all (default: 285)")
    parser.add_argument(
        "--linger", type=float, default=0.0, help="seconds to keep Spark's pages up at the end"
    )
    return parser.parse_args()


def _run(
    options: argparse.Namespace, folder: Path, deadline: float
) -> tuple[report.Outcome, Burst]:
    print("Writing the input …", flush=True)
    load = _workload(options, folder / "input")
    print("Starting a standalone master, and a worker with one core …", flush=True)
    with standalone_cluster(folder / "cluster", workers=1) as cluster, _session(cluster) as spark:
        print(f"Input:    {load.title}, in {workload.BATCHES} batches")
        print(
            f"Spark UI: {spark.sparkContext.uiWebUrl} while this runs; see Structured Streaming, "
            "and SQL"
        )
        print(f"Master:   {cluster.ui}")
        print("A batch's line is of the query totals, and ends with worker@executor:bins.")
        outcome = scenario.run(
            spark, cluster, load, folder / "checkpoints", options.every, deadline
        )
        print(f"─── a burst on one of {options.burst_keys:,} other keys", flush=True)
        after = burst.run(spark, folder / "burst", options.burst_keys, deadline)
        if options.linger:
            print(f"Spark's pages stay up for {options.linger:.0f} s.")
            time.sleep(options.linger)
        return outcome, after


def _workload(options: argparse.Namespace, folder: Path) -> Workload:
    if options.rows is None and options.keys is None:
        return workload.flights(folder)
    rows = options.rows or 5 * options.keys
    return workload.generated(folder, rows, options.keys or max(1, rows // 5))


@contextmanager
def _session(cluster: Cluster) -> Iterator[SparkSession]:
    os.environ.update(cluster.environment())
    builder = SparkSession.builder.appName("spark-megaphone demo")
    for key, value in cluster.conf().items():
        builder = builder.config(key, value)
    for key, value in {
        # The core where a worker's state is may be busy with the other query.
        "spark.locality.wait": "10s",
        # A task that asks a dead executor for what it has left asks three times.
        "spark.shuffle.io.retryWait": "500ms",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    try:
        spark = configure(builder, checkpoint_format=2).getOrCreate()
        signal.signal(signal.SIGINT, _interrupt)  # PySpark's own handler asks the JVM things first
        yield spark
    finally:
        _stop_spark()


def _stop_spark() -> None:
    """Stops the session, and waits until the driver's JVM has ended."""
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    if SparkContext._gateway is not None:
        jvm: subprocess.Popen[bytes] = SparkContext._gateway.proc
        if jvm.stdin is not None:
            jvm.stdin.close()
        try:
            jvm.wait(30)
        except subprocess.TimeoutExpired:
            jvm.kill()


def _interrupt(number: int, frame: FrameType | None) -> None:
    logging.disable()  # py4j would log the stack of the call that ends here
    raise KeyboardInterrupt
