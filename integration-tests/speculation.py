# SPDX-License-Identifier: Apache-2.0
"""Runs a query with speculation on, one of whose tasks hangs until a speculative attempt of it has
run.

Arguments: a folder, and a JSON file with Spark's settings. Prints how many tasks hung, as the last
    line.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_megaphone import configure
from streams import Stream

AT_BATCHES = (2, 5)
WORKERS = 3
_PATIENCE_S = 240.0


def main(folder: Path, settings: dict[str, str]) -> None:
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    for format in (1, 2):
        stream = Stream(spark, folder / f"v{format}", _totals, format=format, each=_hang_once)
        stream.start().run(3)
        stream.rescale(WORKERS)
        stream.run(3)
        stream.stop()
        stream.check()
    spark.stop()
    print(len(list(folder.glob("v*/second-*"))))


def _totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))


def _hang_once(stream: Stream, rows: DataFrame, batch: int) -> None:
    folder, is_slow, patience = stream.source.parent, batch in AT_BATCHES, _PATIENCE_S

    def through(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        task = TaskContext.get()
        if is_slow and task is not None and task.partitionId() == 0:
            second = folder / f"second-{batch}"
            try:
                (folder / f"first-{batch}").touch(exist_ok=False)
            except FileExistsError:
                second.touch()
            deadline = time.monotonic() + patience
            while not second.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        yield from frames

    stream.given[batch] = [tuple(row) for row in rows.mapInPandas(through, rows.schema).collect()]


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
