# SPDX-License-Identifier: Apache-2.0
"""The queries of a long run: one of each kind, always; a query may be replaced by a new one."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from testkit.driver_process import DriverProcess
from testkit.in_process import STOCK
from testkit.input import FEW_ROWS, MANY_ROWS, Pattern
from testkit.placement import REPLICAS
from testkit.remote import BINNED, PROVIDER, RemoteQuery

_BINS = (16, 32, 64)
_MANY_KEYS = replace(MANY_ROWS, rows=1000, step=1000)


@dataclass(frozen=True)
class Place:
    """A place in the fleet: there is always one query of its kind.

    Attributes:
        kind: One of the testkit's.
        pattern: Its input.
        provider: Where it keeps its state.
        has_totals: Whether the state of its first operator can be compared too.
    """

    kind: str
    pattern: Pattern = FEW_ROWS
    provider: str = BINNED
    has_totals: bool = False


PLACES = {
    "totals": Place("totals", _MANY_KEYS, has_totals=True),
    "wide": Place("wide", _MANY_KEYS, has_totals=True),
    "distinct": Place("distinct", has_totals=True),
    "windows": Place("windows"),
    "sessions": Place("sessions"),
    "met": Place("met"),
    "visited": Place("visited"),
    "stock": Place("totals", provider=STOCK),
}


class Fleet:
    """The queries, by place. Both checkpoint formats are among them.

    Attributes:
        checks: How often an answer was compared.
        rows: How many rows the answers had in all.
        restarts: How often a query was started again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checks = self.rows = self.restarts = 0
        self._made = 0
        self._past_batches = 0
        self._queries: dict[str, RemoteQuery] = {}
        for number, place in enumerate(PLACES):
            self._queries[place] = self._new(place, 0, 1 + number % 2, Random(place))

    def __iter__(self) -> Iterator[RemoteQuery]:
        return iter(list(self._queries.values()))

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def places(self) -> dict[str, RemoteQuery]:
        """The query at each place."""
        return dict(self._queries)

    @property
    def binned(self) -> list[RemoteQuery]:
        """Those whose state is in bins."""
        return [q for place, q in self._queries.items() if PLACES[place].provider == BINNED]

    @property
    def batches(self) -> int:
        """How many batches have been committed in all."""
        return self._past_batches + sum(_batches(query) for query in self)

    def start(self, driver: DriverProcess) -> None:
        """Starts all of them on a driver."""
        for query in self:
            self.restarts += query.driver is not None
            query.start(driver)

    def restart(self, query: RemoteQuery, driver: DriverProcess) -> None:
        """Starts one that has stopped."""
        query.start(driver)
        self.restarts += 1

    def check(self, query: RemoteQuery) -> None:
        """Closes all windows that are open; output and state must be the batch answer.

        Raises:
            AssertionError: Rows are wrong; the sentence tells how many, and some of them.
        """
        place = PLACES[place_of(query)]
        query.flush()
        expected = query.answer()
        try:
            query.check(expected=expected)
            if place.has_totals:
                query.check_state()
        except AssertionError as wrong:
            raise AssertionError(f"{query.name}: {wrong}") from None
        self.checks += 1
        self.rows += len(expected)

    def replace(self, query: RemoteQuery, dice: Random) -> RemoteQuery:
        """Stops a query for good, deletes it, and returns a new one of its kind, not started."""
        assert query.driver is not None
        query.stop()
        query.call("forget")
        self._past_batches += _batches(query)
        shutil.rmtree(query.folder)
        place, number = query.name.rsplit("-", 1)
        other_format = 2 if _format(query) == 1 else 1
        self._queries[place] = self._new(place, int(number) + 1, other_format, dice)
        return self._queries[place]

    def _new(self, place: str, number: int, format: int, dice: Random) -> RemoteQuery:
        kind = PLACES[place]
        # All queries are started by one session, so each has a value of its own for each key.
        settings = {
            PROVIDER: kind.provider,
            "spark.megaphone.bins": str(dice.choice(_BINS)),
            "spark.megaphone.transfer.windowSteps": str(dice.choice((1, 2, 4))),
            REPLICAS: str(dice.choice((0, 1))),
            # With the lower rate, prepared steps are made of files, slice by slice.
            "spark.megaphone.transfer.maxBytesPerSecond": dice.choice(("0", "0", "10k")),
        }
        return RemoteQuery(
            self.folder / f"{place}-{number}",
            kind=kind.kind,
            format=1 if kind.provider == STOCK else format,
            pattern=kind.pattern,
            **settings,
        )


def place_of(query: RemoteQuery) -> str:
    """The place that a query has."""
    return query.name.rsplit("-", 1)[0]


def _format(query: RemoteQuery) -> int:
    return int(query.settings["spark.sql.streaming.stateStore.checkpointFormatVersion"])


def _batches(query: RemoteQuery) -> int:
    folder = query.checkpoint / "commits"
    return max(query.logged("commits"), default=-1) + 1 if folder.exists() else 0
