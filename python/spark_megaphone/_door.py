# SPDX-License-Identifier: Apache-2.0
"""The way to the plugin for one query.

It goes through the JVM of this process, or through SQL.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from spark_megaphone.errors import WrongType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery as ConnectQuery
    from pyspark.sql.streaming.query import StreamingQuery


Query: TypeAlias = "StreamingQuery | ConnectQuery"


class Door(Protocol):
    """Verbs of the plugin with plain arguments, answered by rows.

    Holds nothing that changes, so any thread may use it. After the query has stopped every verb
    raises `QueryStopped`.
    """

    @property
    def title(self) -> str:
        """How the query is called: by its name, or by its run id."""

    def ask(self, verb: str, *arguments: object) -> Any:
        """Calls a verb of the plugin.

        Args:
            verb: `rescale`, `move`, `submit`, `cancel`, `plan`, `spread`, `place`,
                `cancelRelocations`, `picture` or a table.
            *arguments: What the verb needs beside the query: moves and places as a dict, steps as
                a list of rows, str, int, float or None.

        Returns:
            A row as a dict, a table as a list of dicts; None where the verb returns nothing.

        Raises:
            MegaphoneError: Of the class that the plugin's condition names, with its sentence.
        """

    def awaited(self, plan: str, seconds: float) -> dict[str, Any]:
        """The row of a plan when it is over, or after so many seconds or a little more.

        Raises:
            MegaphoneError: As `ask`, also if the query ends meanwhile.
        """

    def pause(self, seconds: float) -> None:
        """Returns at the next time to look again: after so many seconds, or much earlier."""

    def is_in_batch(self) -> bool:
        """Whether the query is working on data; false while it waits for data or its trigger."""

    def steps(self) -> list[dict[str, Any]]:
        """The rows of the steps of all plans, in the order of submission.

        Raises:
            MegaphoneError: As `ask`.
        """

    def progress(self) -> list[dict[str, Any]] | None:
        """Spark's own progress of the newest batches, the oldest first.

        None if the query is one of another session, which alone knows it.

        Raises:
            MegaphoneError: As `ask`, if the session has stopped.
        """


def door_of(query: "Query") -> Door:
    """Opens the way to the plugin that the query has.

    Raises:
        MegaphoneError: There is none; see `Megaphone`.
    """
    kind, found = type(query), cast(Any, query)
    if kind.__module__.startswith("pyspark.sql.connect."):
        from spark_megaphone._sql import SqlDoor

        return SqlDoor(found._session, found.runId, found.name, found)
    if kind.__module__.startswith("pyspark.sql.streaming."):
        from spark_megaphone._jvm import JvmDoor

        return JvmDoor(found)
    raise WrongType(
        f"The query is of type {kind.__name__}, but a StreamingQuery is needed: what start() "
        "returned, or one of spark.streams.active."
    )


def find(session: "SparkSession", query: str) -> Door:
    """Opens the way to a query that is known by its name, id or run id.

    Raises:
        MegaphoneError: See `Megaphone.find`.
    """
    from spark_megaphone import _sql

    found = _sql.find(session, query)
    for started in _sql.answered(lambda: session.streams.active):
        if started.runId == found.run_id:
            return door_of(started)
    return found


@dataclass(frozen=True)
class Application:
    """The way to the plugin for what is about no single query.

    Attributes:
        ask: Calls a verb, with its arguments: a table, which is answered by a list of rows, or
            `drain` (an executor, milliseconds, and whether to release it), `undrain` (an executor)
            and `requestExecutors` (how many), by a row. Raises MegaphoneError; QueryStopped once
            the application has stopped.
        look_s: Seconds between two looks at what changes.
    """

    ask: Callable[..., Any]
    look_s: float


def application(session: "SparkSession | None") -> Application:
    """Opens the way to the plugin of an application.

    Args:
        session: A session of the application; None for the one that runs in this process.

    Raises:
        QueryStopped: No session runs.
        MegaphoneError: As a door raises it when it is made.
    """
    if session is None:
        session = _session_of_connect()
    if type(session).__module__.startswith("pyspark.sql.connect."):
        from spark_megaphone import _sql

        return Application(_sql.application(cast(Any, session)), _sql.WAIT_S)
    from spark_megaphone import _jvm

    return Application(_jvm.application(), _jvm.LOOK_S)


def _session_of_connect() -> "SparkSession | None":
    """The session of Spark Connect that is in use; None in a process with a classic one."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if "pyspark.core.context" in sys.modules:
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            return None
    try:
        return SparkSession.active()
    except PySparkException:
        return None
