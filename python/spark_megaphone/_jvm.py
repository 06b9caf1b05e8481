# SPDX-License-Identifier: Apache-2.0
"""The way to the plugin in the JVM of this process, and the only module that knows py4j.

It finds the plugin's interface, calls it, and gives the exceptions that come back their names.
"""

import contextlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_megaphone._version import __version__
from spark_megaphone.errors import (
    JarMissing,
    MegaphoneError,
    PluginMissing,
    QueryStopped,
    UnknownPlan,
    VersionMismatch,
    error_of,
    has_ended,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PLUGIN = "io.megaphone.MegaphonePlugin"

LOOK_S = 0.2  # between two looks at a plan

_NO_CLASSES = (
    "The JVM of this session does not know Megaphone's classes, because its jar is missing; "
    "start the session with spark_megaphone.configure(SparkSession.builder), "
    "or give the jar to spark-submit with --jars."
)
_SESSION_STOPPED = (
    "The Spark session of the query has stopped, and the query with it; "
    "start both, and make a new handle."
)
_APPLICATION_STOPPED = (
    "The application has stopped, and all that it was asked for is forgotten; ask the one that "
    "runs now."
)
_NO_SESSION = (
    "No classic Spark session runs in this process, so there is nothing to ask; start one with "
    "spark_megaphone.configure."
)


class JvmDoor:
    """A `Door` for a query of a classic session.

    Calls cost a few milliseconds, and leave no trace in the SQL tab.
    """

    def __init__(self, query: "StreamingQuery") -> None:
        self._query = query
        self._context, self._api = _plugin()
        self._run_id: str = query.runId

    @property
    def title(self) -> str:
        return self._query.name or self._run_id

    def ask(self, verb: str, *arguments: object) -> Any:
        """See `Door`. A verb is a method of `io.megaphone.spark.faces.api.MegaphoneApi`."""
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not self._context:
            raise QueryStopped(_SESSION_STOPPED)
        plain = (json.dumps(a) if isinstance(a, dict | list) else a for a in arguments)
        try:
            answer = _called(self._api, verb, self._run_id, *plain)
        except QueryStopped:
            failure = self._failure()
            if failure is None:
                raise
            raise has_ended(self._run_id, failure) from failure
        return None if answer is None else json.loads(answer)

    def awaited(self, plan: str, seconds: float) -> dict[str, Any]:
        """See `Door`. Looks once, after `seconds` or at the end of the query."""
        self.pause(seconds)
        row: dict[str, Any] = self.ask("plan", plan)
        return row

    def pause(self, seconds: float) -> None:
        """See `Door`. Returns at the end of the query, too."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        # Should it have failed, the next question says so.
        with contextlib.suppress(PySparkException, Py4JError):
            self._query.awaitTermination(min(seconds, LOOK_S))  # type: ignore[arg-type]

    def is_in_batch(self) -> bool:
        """See `Door`."""
        status = self._query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def steps(self) -> list[dict[str, Any]]:
        """See `Door`."""
        found: list[dict[str, Any]] = []
        for plan in self.ask("plans"):
            with contextlib.suppress(UnknownPlan):  # trimmed meanwhile
                found += self.ask("steps", plan["id"])
        return found

    def progress(self) -> list[dict[str, Any]] | None:
        """See `Door`."""
        from py4j.protocol import Py4JError

        try:
            return [dict(one) for one in self._query.recentProgress]
        except (Py4JError, ConnectionError) as error:
            raise QueryStopped(_SESSION_STOPPED) from error

    def _failure(self) -> Exception | None:
        from py4j.protocol import Py4JError

        try:
            return self._query.exception()
        except Py4JError:
            return None


def application() -> Callable[..., Any]:
    """Opens the way to what is about no single query, in the application that runs now.

    Returns:
        What calls a method of `io.megaphone.spark.faces.api.MegaphoneApi` that takes no query, and
        parses the JSON that it returns. Raises as `JvmDoor.ask`.

    Raises:
        QueryStopped: No session runs.
        MegaphoneError: As `JvmDoor` raises it when it is made.
    """
    from pyspark import SparkContext

    context, api = _plugin(_NO_SESSION)

    def ask(verb: str, *arguments: object) -> Any:
        if SparkContext._active_spark_context is not context:
            raise QueryStopped(_APPLICATION_STOPPED)
        return json.loads(_called(api, verb, *arguments))

    return ask


def _plugin(stopped: str = _SESSION_STOPPED) -> tuple[Any, Any]:
    """The running context and the plugin's interface in its JVM; `stopped` says that none runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or SparkContext._jvm is None:
        raise QueryStopped(stopped)
    if not _is_known(SparkContext._jvm):
        raise JarMissing(_NO_CLASSES)
    if not _has_plugin(context):
        raise PluginMissing(
            "The session was started without the plugin; start it with spark_megaphone.configure, "
            f"or with spark.plugins={PLUGIN}."
        )
    api = SparkContext._jvm.io.megaphone.spark.faces.api.MegaphoneApi
    check_version(_called(api, "version"))
    return context, api


def running_context_has_plugin() -> bool | None:
    """Whether this process's Spark context was started with the plugin; None if none runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return None if context is None else _has_plugin(context)


def running_jvm_knows_classes() -> bool | None:
    """Whether the JVM of this process can load the plugin; None where it will be started later."""
    from pyspark import SparkContext

    if SparkContext._jvm is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()
    return _is_known(SparkContext._jvm)


def _has_plugin(context: Any) -> bool:
    return PLUGIN in [
        name.strip() for name in context.getConf().get("spark.plugins", "").split(",")
    ]


def _is_known(jvm: Any) -> bool:
    """A class that the JVM cannot load is a JavaPackage, which fails only when it is called."""
    from py4j.java_gateway import JavaClass

    return isinstance(jvm.io.megaphone.spark.faces.api.MegaphoneApi, JavaClass)


def check_version(jar: str) -> None:
    """Raises VersionMismatch if the jar is of another version than this package."""
    if jar not in (__version__, "unknown"):
        raise VersionMismatch(
            f"The session has the jar of spark-megaphone {jar}, but the Python package is "
            f"{__version__}; use the same version of both, which spark_megaphone.configure does."
        )


def _called(api: Any, verb: str, *arguments: object) -> Any:
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        return getattr(api, verb)(*arguments)
    except (Py4JJavaError, PySparkException) as error:
        raise _named(error) from None
    except (Py4JNetworkError, ConnectionError) as error:
        raise QueryStopped(_SESSION_STOPPED) from error
    except Py4JError as error:
        raise MegaphoneError(f"The plugin does not understand the call: {error}") from error


def _named(error: Exception) -> MegaphoneError:
    """The error that a JVM exception stands for; PySpark turns some into its own, which keep it."""
    from py4j.protocol import Py4JError

    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is None:
        return MegaphoneError(str(error))
    try:
        condition = str(thrown.condition())
    except Py4JError:
        return MegaphoneError(str(thrown.toString()))
    return error_of(condition, str(thrown.getMessage()))
