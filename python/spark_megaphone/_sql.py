# SPDX-License-Identifier: Apache-2.0
"""The way to the plugin through SQL: for Spark Connect, and for queries of other sessions.

It needs no class of ours on the client's side: a procedure for each verb, and a table for each
table. Values go as parameters of the statement, never as its text.
"""

import json
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from spark_megaphone import _checks, _tables, conf
from spark_megaphone._jvm import PLUGIN, check_version
from spark_megaphone.errors import (
    MegaphoneError,
    PluginMissing,
    QueryStopped,
    UnknownQuery,
    error_of,
    has_ended,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_CATALOG = "io.megaphone.spark.faces.sql.MegaphoneCatalog"
_PREFIX = "MEGAPHONE_"
_LOOK_S = 0.5  # between two looks at relocations
WAIT_S = 2  # each wait is a statement, which stays in the SQL tab
# By verb of what is about no single query: the procedure, and the names of its arguments.
_PROCEDURES = {
    "drain": ("drain", ("executor", "timeout_s", "release")),
    "undrain": ("undrain", ("executor",)),
    "requestExecutors": ("request_executors", ("total",)),
}
_SCHEMAS = {
    "queries": _tables.QUERIES,
    "workers": _tables.WORKERS,
    "bins": _tables.BINS,
    "plans": _tables.PLANS,
    "steps": _tables.STEPS,
    "migrations": _tables.MIGRATIONS,
    "relocations": _tables.RELOCATIONS,
    "drains": _tables.DRAINS,
    "executors": _tables.EXECUTORS,
}
_NO_PLUGIN = (
    "The session's application was started without the plugin, or without its SQL catalog; start "
    f"the server with the jar in spark.jars and spark.plugins={PLUGIN}, and let {conf.SQL_CATALOG} "
    "name a catalog that is not yours. pyspark --remote local and remote('local') cannot load "
    "plugins: start a server with start-connect-server.sh."
)


class SqlDoor:
    """A `Door` for any query of the application that a session can reach by SQL."""

    def __init__(self, session: "SparkSession", run_id: str, name: str | None, query: Any) -> None:
        self._sql = Sql(session)
        self.run_id = run_id
        self._name = name
        self._query = query

    @property
    def title(self) -> str:
        return self._name or self.run_id

    def ask(self, verb: str, *arguments: object) -> Any:
        """See `Door`."""
        if verb in _SCHEMAS:
            return self._rows(verb, *arguments)
        if verb == "cancel":
            self._call("cancel", plan=arguments[0])
            return None
        if verb == "picture":
            return self._call("picture")
        if verb == "plan":
            return self._call("wait", plan=arguments[0], timeout_s=0)
        if verb == "spread":
            tolerance = None if arguments[0] == _checks.CONFIGURED else arguments[0]
            return self._calls("spread", tolerance=tolerance)
        if verb == "place":
            operator = None if arguments[1] == _checks.ALL_OPERATORS else arguments[1]
            return self._calls("place", workers=arguments[0], operator=operator)
        if verb == "cancelRelocations":
            for relocation in cast(list[int], arguments[0]):
                self._call("cancel_relocation", relocation=relocation)
            return None
        asked, strategy, mode, operator = arguments
        how = {"strategy": strategy, "mode": mode}
        if operator != _checks.ALL_OPERATORS:
            how["operator"] = operator
        if verb == "rescale":
            return self._call("rescale", workers=asked, **how)
        if verb == "move":
            return self._call("move", moves=asked, **how)
        return self._call("submit", steps=asked, **how)

    def awaited(self, plan: str, seconds: float) -> dict[str, Any]:
        """See `Door`. The server looks; so there are few statements, however long it takes."""
        return self._call("wait", plan=plan, timeout_s=math.ceil(min(WAIT_S, seconds)))

    def pause(self, seconds: float) -> None:
        """See `Door`."""
        time.sleep(min(_LOOK_S, seconds))

    def is_in_batch(self) -> bool:
        """See `Door`. A query that is not of this session is taken to be."""
        if self._query is None:
            return True
        status = answered(lambda: self._query.status)
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def steps(self) -> list[dict[str, Any]]:
        """See `Door`. One statement, however many plans there are."""
        return self._rows("steps")

    def progress(self) -> list[dict[str, Any]] | None:
        """See `Door`."""
        if self._query is None:
            return None
        return [dict(one) for one in answered(lambda: self._query.recentProgress)]

    def _call(self, procedure: str, **arguments: object) -> dict[str, Any]:
        return self._calls(procedure, **arguments)[0]

    def _calls(self, procedure: str, **arguments: object) -> list[dict[str, Any]]:
        try:
            return self._sql.call(procedure, query=self.run_id, **arguments)
        except UnknownQuery:
            raise has_ended(self.run_id, self._failure()) from None
        except QueryStopped:  # while the server waited, or with the session
            failure = self._failure()
            if failure is None:
                raise
            raise has_ended(self.run_id, failure) from failure

    def _failure(self) -> Exception | None:
        """What the query died of, as far as this client can know."""
        if self._query is None:
            return None
        try:
            failure: Exception | None = answered(self._query.exception)
            return failure
        except MegaphoneError:
            return None

    def _rows(self, table: str, plan: object = None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._sql.table(table, self.run_id).to_pylist()
        if not rows:
            self._call("about")  # says so if the query has stopped, or has no state yet
            rows = self._sql.table(table, self.run_id).to_pylist()
        if plan is None:
            return rows
        rows = [row for row in rows if row["plan"] == plan]
        if not rows:
            self.ask("plan", plan)  # says so if it is unknown
        return rows


def find(session: "SparkSession", query: str) -> SqlDoor:
    """Opens the way to a query that another session has started; see `Megaphone.find`."""
    row = Sql(session).call("about", query=query)[0]
    return SqlDoor(session, row["run_id"], row["query_name"], None)


def application(session: "SparkSession") -> Callable[..., Any]:
    """Opens the way to what is about no single query; what it returns calls a verb."""
    sql = Sql(session)

    def ask(verb: str, *arguments: object) -> Any:
        if verb in _SCHEMAS:
            return sql.table(verb).to_pylist()
        procedure, names = _PROCEDURES[verb]
        named = dict(zip(names, arguments, strict=True))
        if verb == "drain":
            named["timeout_s"] = math.ceil(cast(int, named["timeout_s"]) / 1000)
        return sql.call(procedure, **named)[0]

    return ask


class Sql:
    """Statements for the plugin's catalog in one session.

    Raises:
        PluginMissing: The application has no plugin, or no catalog.
        VersionMismatch: Its jar is of another version than this package.
    """

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        name = answered(lambda: session.conf.get(conf.SQL_CATALOG, conf.DEFAULTS[conf.SQL_CATALOG]))
        name = name.strip()
        self._system = f"{name}.system"
        catalog = answered(lambda: session.conf.get(f"spark.sql.catalog.{name}", None))
        if catalog != _CATALOG:  # there is none, or one of the user's
            raise PluginMissing(_NO_PLUGIN)
        check_version(self.call("about")[0]["version"])

    def call(self, procedure: str, **arguments: object) -> list[dict[str, Any]]:
        """Calls a procedure; its rows. Raises MegaphoneError.

        Args:
            procedure: Its name.
            **arguments: By name: moves as a dict of whole numbers, places as one of numbers to
                executors, steps as a list of rows. One that is None is left out.
        """
        texts: list[str] = []
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            if isinstance(value, dict):  # Spark takes no dict as a parameter
                texts.append(f"{name} => {_map_of(name, value, values)}")
            elif value is not None:
                texts.append(f"{name} => :{name}")
                values[name] = json.dumps(value) if isinstance(value, list) else value
        text = f"CALL {self._system}.{procedure}({', '.join(texts)})"
        rows: list[dict[str, Any]] = self._run(text, values).to_pylist()
        return rows

    def table(self, name: str, run_id: str | None = None) -> "pa.Table":
        """A table with the columns of the fixed schema, of one run or of all.

        Raises MegaphoneError.
        """
        schema = _SCHEMAS[name]
        # The server has just these rows at hand; anything else in the statement would make a job.
        values: dict[str, object] = {} if run_id is None else {"run_id": run_id}
        where = "" if run_id is None else " WHERE run_id = :run_id"
        rows = self._run(f"SELECT * FROM {self._system}.{name}{where}", values)
        return rows.select(schema.names).cast(schema)

    def _run(self, text: str, values: dict[str, object]) -> "pa.Table":
        return answered(lambda: self._session.sql(text, values).toArrow())


def _map_of(name: str, pairs: dict[Any, Any], values: dict[str, Any]) -> str:
    """A map as a statement has it. Numbers are text of the statement, other values parameters."""
    kind = "INT"
    texts = []
    for number, (key, of) in enumerate(pairs.items()):
        if isinstance(of, str):
            kind = "STRING"
            values[f"{name}_{number}"] = of
            texts.append(f"{int(key)}, :{name}_{number}")
        else:
            texts.append(f"{int(key)}, {int(of)}")
    return f"CAST(map({', '.join(texts)}) AS MAP<INT, {kind}>)"


def answered(ask: Callable[[], Any]) -> Any:
    """What the server answers, or the error that it means."""
    from pyspark.errors import PySparkException

    try:
        return ask()
    except PySparkException as error:
        raise _named(error) from None


def _named(error: Any) -> MegaphoneError:
    condition = error.getCondition() or ""
    if condition.startswith(_PREFIX):
        return error_of(condition.removeprefix(_PREFIX), _sentence(error))
    if "SESSION" in condition or "StatusCode.UNAVAILABLE" in str(error):
        return QueryStopped(
            "The Spark Connect session or its server has stopped, and the query with it; start "
            "both, and make a new handle."
        )
    return MegaphoneError(_sentence(error))


def _sentence(error: Any) -> str:
    """Its own message: Connect adds the server's stack trace below it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]
