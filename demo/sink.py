# SPDX-License-Identifier: Apache-2.0
"""Where the queries' answers go, and how they are compared with the answers of a batch query."""

import pandas as pd
from pyspark.sql import DataFrame


class Answers:
    """What a query has answered, batch by batch, kept in the driver; a batch run again replaces
    itself.
    """

    def __init__(self) -> None:
        self._by_batch: dict[int, pd.DataFrame] = {}

    def take(self, rows: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        self._by_batch[batch] = rows.toPandas()

    def all(self) -> pd.DataFrame:
        """All rows, the oldest batch first."""
        return pd.concat(
            [self._by_batch[batch] for batch in sorted(self._by_batch)], ignore_index=True
        )


def wrong_keys(answers: pd.DataFrame, expected: pd.DataFrame, key: str) -> list[object]:
    """Keys whose last answer is not exactly the expected one, is missing, or should not be
    there.
    """
    both = answers.drop_duplicates(key, keep="last").merge(
        expected, on=key, how="outer", suffixes=("", "_expected"), indicator="found"
    )
    is_right = both["found"] == "both"
    for column in expected.columns.drop(key):
        given, right = both[column], both[f"{column}_expected"]
        is_right &= (given == right) | (given.isna() & right.isna())
    return list(both.loc[~is_right, key])


def wrong_firsts(answers: pd.DataFrame, expected: pd.DataFrame) -> list[object]:
    """Combinations that were not answered exactly once."""
    columns = list(expected.columns)
    times = answers.groupby(columns).size().to_frame("times")
    both = expected.assign(wanted=1).set_index(columns).join(times, how="outer")
    return list(both.index[(both["times"] != 1) | (both["wanted"] != 1)])
