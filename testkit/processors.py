# SPDX-License-Identifier: Apache-2.0
"""How Python's `transformWithState` gets its rows and gives out others: one by one or in frames."""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, GroupedData, Row


def seen_and_told(*, with_pandas: bool) -> tuple[Callable[[Any], list[Any]], Callable[..., Any]]:
    """What makes a list of a processor's input rows, and what makes an output row of named values.

    Defined in a function, so that they travel to Python's workers by value.
    """

    def seen(rows: Iterator[Any]) -> list[Any]:
        return [row for frame in rows for row in frame.itertuples()] if with_pandas else list(rows)

    def told(**values: object) -> Any:
        if not with_pandas:
            return Row(**values)
        import pandas

        return pandas.DataFrame({name: [value] for name, value in values.items()})

    return seen, told


def runner(groups: GroupedData, *, with_pandas: bool) -> Callable[..., DataFrame]:
    """The operator that runs such a processor."""
    return groups.transformWithStateInPandas if with_pandas else groups.transformWithState
