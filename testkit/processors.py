# SPDX-License-Identifier: Apache-2.0
"""How Python's `transformWithState` gets its rows and gives out others; a processor that counts.

Rows come and go one by one, or in frames.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, GroupedData, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

VISITS = "k long, n long, listed long, mapped long, is_last boolean"
KEPT = "k long, n long, listed long, mapped long, found long"
DAY_MS = 24 * 3_600_000
# Less the key: the key of the row that tells of its timers. That of `FLUSH` is itself.
OF_TIMERS = -2


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


def visits(*, with_pandas: bool, unseen_ms: int) -> StatefulProcessor:
    """Counts a key's rows in a value, a list and a map.

    It gives the counts out, and once more when the key has not been seen for so long: then it
    starts anew.

    Defined in a function, so that it travels to Python's workers by value.
    """
    seen, told = seen_and_told(with_pandas=with_pandas)

    class Visits(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", "n long")
            self.values = handle.getListState("values", "v long")
            self.by_value = handle.getMapState("by_value", "v long", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            new = seen(rows)
            known = self.count.get()[0] if self.count.exists() else 0
            self.count.update((known + len(new),))
            self.values.appendList([(int(row.v),) for row in new])
            for row in new:
                value = (int(row.v),)
                before = self.by_value.getValue(value)[0] if self.by_value.containsKey(value) else 0
                self.by_value.updateValue(value, (before + 1,))
            for due in list(self.handle.listTimers()):
                self.handle.deleteTimer(due)
            self.handle.registerTimer(int(max(row.t for row in new).timestamp() * 1000) + unseen_ms)
            yield self.told(key, is_last=False)

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            yield self.told(key, is_last=True)
            self.count.clear()
            self.values.clear()
            self.by_value.clear()

        def told(self, key: Any, *, is_last: bool) -> Any:
            listed = sum(1 for _ in self.values.get())
            mapped = sum(n for (n,) in self.by_value.values())
            return told(
                k=key[0], n=self.count.get()[0], listed=listed, mapped=mapped, is_last=is_last
            )

        def close(self) -> None: ...

    return Visits()


def expiring(*, with_pandas: bool) -> StatefulProcessor:
    """Counts a key's rows in state that expires in a day; tells what it finds of what has expired.

    Each visit has a timer by the clock that is due in the next batch; it tells how many were.
    Defined in a function, so that it travels to Python's workers by value.
    """
    seen, told = seen_and_told(with_pandas=with_pandas)
    day_ms, of_timers = DAY_MS, OF_TIMERS

    class Expiring(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.due = handle.getValueState("due", "n long")
            self.kept = handle.getValueState("kept", "n long", day_ms)
            self.kept_values = handle.getListState("kept_values", "v long", day_ms)
            self.kept_by_value = handle.getMapState("kept_by_value", "v long", "n long", day_ms)
            self.gone = handle.getValueState("gone", "n long", 1)
            self.gone_values = handle.getListState("gone_values", "v long", 1)
            self.gone_by_value = handle.getMapState("gone_by_value", "v long", "n long", 1)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            found = sum(
                (self.gone.exists(), self.gone_values.exists(), self.gone_by_value.exists())
            )
            values = [int(row.v) for row in seen(rows)]
            n = (self.kept.get()[0] if self.kept.exists() else 0) + len(values)
            for value, listed, mapped in (
                (self.kept, self.kept_values, self.kept_by_value),
                (self.gone, self.gone_values, self.gone_by_value),
            ):
                value.update((n,))
                listed.appendList([(v,) for v in values])
                mapped.updateValue((n,), (len(values),))
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
            listed = sum(1 for _ in self.kept_values.get())
            mapped = sum(m for (m,) in self.kept_by_value.values())
            yield told(k=key[0], n=n, listed=listed, mapped=mapped, found=found)

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            due = (self.due.get()[0] if self.due.exists() else 0) + 1
            self.due.update((due,))
            yield told(k=of_timers - key[0], n=due, listed=0, mapped=0, found=0)

        def close(self) -> None: ...

    return Expiring()


def tally(unseen_ms: int | None) -> Callable[..., Iterator[Any]]:
    """Counts a key's rows for `applyInPandasWithState`, as `visits` does.

    Where no time is given it goes by the clock: a third of the keys is unseen in the next batch
    already, the others after a day.
    Defined in a function, so that it travels to Python's workers by value.
    """
    day_ms = DAY_MS

    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas

        n = state.get[0] if state.exists else 0
        if state.hasTimedOut:
            state.remove()
        else:
            rows = pandas.concat(frames)
            n += len(rows)
            state.update((n,))
            if unseen_ms is None:
                state.setTimeoutDuration(day_ms if key[0] % 3 else 1)
            else:
                state.setTimeoutTimestamp(int(rows["t"].max().timestamp() * 1000) + unseen_ms)
        yield pandas.DataFrame({"k": [key[0]], "n": [n], "is_last": [not state.exists]})

    return count
