# SPDX-License-Identifier: Apache-2.0
"""The way to the JVM half, and the only module that knows py4j.

It finds the plugin's door, calls it, and gives the exceptions that come back their names.
"""

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from spark_megaphone._version import __version__
from spark_megaphone.errors import (
    ConnectNotSupported,
    JarMissing,
    MegaphoneError,
    PluginMissing,
    QueryStopped,
    VersionMismatch,
    WrongType,
    error_of,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PLUGIN = "io.megaphone.MegaphonePlugin"

_NO_CLASSES = (
    "The JVM of this session does not know Megaphone's classes, because its jar is missing; "
    "start the session with spark_megaphone.configure(SparkSession.builder), "
    "or give the jar to spark-submit with --jars."
)
_SESSION_STOPPED = (
    "The Spark session of the query has stopped, and the query with it; "
    "start both, and make a new handle."
)
_NO_SESSION = (
    "No classic Spark session runs in this process, so there is nothing to ask; start one with "
    "spark_megaphone.configure."
)


class Door:
    """The plugin's interface for one query: verbs with plain arguments, answered by rows.

    Holds nothing that changes, so any thread may use it. After the query has stopped every verb
    raises `QueryStopped`.
    """

    def __init__(self, query: "StreamingQuery") -> None:
        kind = type(query)
        if kind.__module__.startswith("pyspark.sql.connect."):
            raise ConnectNotSupported(
                "The query runs through Spark Connect, from which there is no way to the plugin "
                "yet; make the handle where the session is a classic one, in the driver's own "
                "Python process."
            )
        if not kind.__module__.startswith("pyspark.sql.streaming."):
            raise WrongType(
                f"The query is of type {kind.__name__}, but a StreamingQuery is needed: what "
                "start() returned, or one of spark.streams.active."
            )
        self.query = query
        self._context, self._api = _plugin()
        self.run_id: str = query.runId
        self.name: str | None = query.name

    def ask(self, verb: str, *arguments: object) -> Any:
        """Calls a verb of the plugin.

        Args:
            verb: A method of `io.megaphone.spark.faces.api.MegaphoneApi`.
            *arguments: What comes after the run id: str, int or None.

        Returns:
            The JSON that the verb gives, parsed; None where it gives nothing.

        Raises:
            MegaphoneError: Of the class that the JVM's condition names, with the JVM's sentence.
        """
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not self._context:
            raise QueryStopped(_SESSION_STOPPED)
        try:
            answer = _called(self._api, verb, self.run_id, *arguments)
        except QueryStopped:
            failure = self._failure()
            if failure is None:
                raise
            raise QueryStopped(
                f"The query with run id {self.run_id} has failed: {_first_line(failure)} Mend "
                "that, start it, and create a new handle for it."
            ) from failure
        return None if answer is None else json.loads(answer)

    def pause(self, seconds: float) -> None:
        """Waits, but not beyond the end of the query."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        # Should it have failed, the next question says so.
        with contextlib.suppress(PySparkException, Py4JError):
            self.query.awaitTermination(seconds)  # type: ignore[arg-type]

    def is_in_batch(self) -> bool:
        """Whether the query is working on data; false while it waits for data or its trigger."""
        status = self.query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _failure(self) -> Exception | None:
        from py4j.protocol import Py4JError

        try:
            return self.query.exception()
        except Py4JError:
            return None


def _first_line(failure: Exception) -> str:
    """What a query died of, as one sentence: Spark adds plans and stacks below it."""
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return lines[0].rstrip(". ") + "."


def ask_application(verb: str) -> Any:
    """Calls a verb of the plugin that is about no single query, in the session that runs now.

    Args:
        verb: A method of `io.megaphone.spark.faces.api.MegaphoneApi` without arguments.

    Returns:
        The JSON that the verb returns, parsed.

    Raises:
        QueryStopped: No session runs.
        MegaphoneError: As `Door` raises it, when it is made and when it asks.
    """
    _, api = _plugin(_NO_SESSION)
    return json.loads(_called(api, verb))


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
    _check_version(_called(api, "version"))
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


def _check_version(jar: str) -> None:
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
