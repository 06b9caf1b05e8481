# SPDX-License-Identifier: Apache-2.0
"""Runs a query one of whose tasks hangs until a speculative attempt of it has run.

`python -m testkit.speculation <folder> <file>`: the file has Spark's settings, as JSON. The last
line that it prints is how many tasks hung.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from spark_megaphone import configure
from testkit.answers import rows_of
from testkit.in_process import InProcessQuery
from testkit.shapes import totals

AT_BATCHES = (2, 5)
WORKERS = 3
_PATIENCE_S = 240.0


def main(folder: Path, settings: dict[str, str]) -> None:
    """Runs it in both checkpoint formats."""
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    for format in (1, 2):
        query = InProcessQuery(spark, folder / f"v{format}", totals, format=format, each=_hang_once)
        query.start().run(3)
        query.rescale(WORKERS)
        query.run(3)
        query.stop()
        query.check()
    spark.stop()
    print(len(list(folder.glob("v*/second-*"))))


def _hang_once(query: InProcessQuery, rows: DataFrame, batch: int) -> None:
    folder, is_slow, patience = query.folder, batch in AT_BATCHES, _PATIENCE_S

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

    query.given[batch] = rows_of(rows.mapInPandas(through, rows.schema))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
