# SPDX-License-Identifier: Apache-2.0
"""Runs queries in a driver process of its own, as a test tells it, so that it can be killed and
restarted.

The configuration is a JSON file, given as the only argument. Each line of standard input is a JSON
command, `{"do": "start", ...}`; each is answered by a JSON line, `{"result": ...}` or `{"error":
...}`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from inputs import KEYS
from spark_megaphone import Megaphone, MegaphoneError, configure

WINDOW_SECONDS = 20
_SCHEMA = "k long, v long, t timestamp"
# Of every operator here: a join has four stores.
_STORES = [
    "default",
    *(
        f"{side}-{kind}"
        for side in ("left", "right")
        for kind in ("keyToNumValues", "keyWithIndexToValue")
    ),
]


class Workload:
    """The commands. Each public method is one."""

    def __init__(self, settings: dict[str, str]) -> None:
        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = configure(builder).getOrCreate()
        self._queries: dict[str, StreamingQuery] = {}

    def start(
        self,
        name: str,
        kind: str,
        source: str,
        checkpoint: str,
        sink: str,
        settings: dict[str, str],
    ) -> str:
        """Starts a query: the rows of each batch go into `<sink>/<batch>.json`, anew if it is run
        again.
        """
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        rows = (
            self._spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(source)
        )
        aggregate, mode = _KINDS[kind]
        writer = aggregate(rows).writeStream.foreachBatch(_to_files(Path(sink))).outputMode(mode)
        self._queries[name] = (
            writer.option("checkpointLocation", checkpoint).queryName(name).start()
        )
        return str(self._queries[name].runId)

    def settle(self, name: str) -> int:
        """Waits until all files that are there are processed; gives the newest batch."""
        self._queries[name].processAllAvailable()
        progress = self._queries[name].lastProgress
        return -1 if progress is None else int(progress["batchId"])

    def submit(self, name: str, verb: str, what: Any, how: dict[str, Any]) -> str:
        """Submits a plan by a verb of the handle; gives its id."""
        if verb == "move":
            what = {int(b): w for b, w in what.items()}
        return str(getattr(Megaphone(self._queries[name]), verb)(what, **how).id)

    def plan(self, name: str, id: str) -> dict[str, Any]:
        rows = Megaphone(self._queries[name]).plans().to_pylist()
        return next(row for row in rows if row["id"] == id)

    def stayed(self, name: str, id: str) -> list[int]:
        """Bins of a plan that there was no room for, ascending."""
        return sorted(
            b for step in Megaphone(self._queries[name]).plan(id).steps for b in step.stayed
        )

    def cancel(self, name: str, id: str) -> None:
        Megaphone(self._queries[name]).cancel(id)

    def table(self, name: str, which: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = getattr(Megaphone(self._queries[name]), which)().to_pylist()
        return rows

    def stop(self, name: str) -> float:
        """Stops a query; gives the seconds that it took."""
        began = time.monotonic()
        self._queries[name].stop()
        return time.monotonic() - began

    def failure(self, name: str) -> str | None:
        error = self._queries[name].exception()
        return None if error is None else str(error)

    def is_active(self, name: str) -> bool:
        return bool(self._queries[name].isActive)

    def state(self, checkpoint: str, operator: int = 0) -> list[list[int]]:
        """The last committed state of totals: key, count, sum."""
        rows = self._spark.read.format("statestore").option("operatorId", operator).load(checkpoint)
        return [list(r) for r in rows.select("key.k", "value.count", "value.sum").collect()]

    def state_count(self, checkpoint: str, operator: int) -> int:
        return (
            self._spark.read.format("statestore")
            .option("operatorId", operator)
            .load(checkpoint)
            .count()
        )

    def executors(self) -> list[str]:
        """Ids of the executors that the driver sees."""
        return [str(i.id()) for i in self._infos()]

    def held(self) -> list[dict[str, Any]]:
        """What each executor reported last that it keeps: states of workers, replicas, blocks."""
        jvm: Any = self._spark._jvm
        rows: list[dict[str, Any]] = json.loads(
            jvm.io.megaphone.spark.faces.api.MegaphoneApi.executors()
        )
        return rows

    def threads(self) -> list[str]:
        """Of every executor, the plugin's threads that are at work: `executor: name: stack`."""
        dumps = {e: self._context().getExecutorThreadDump(e) for e in self.executors()}
        return [
            f"{executor}: {thread.threadName()}: {stack}"
            for executor, dump in dumps.items()
            if dump.isDefined()
            for thread in dump.get()
            if thread.threadName().startswith("megaphone-")
            and "io.megaphone" in (stack := str(thread.stackTrace()))
            and any(word in stack for word in ("Preparer", "BlockPeers", "HandOver", "Sweeper"))
        ]

    def pin(self, name: str, worker: int, executor: str) -> None:
        """Wishes a worker of the first operator onto an executor, behind the controller's back."""
        jvm = self._spark._jvm
        assert jvm is not None
        session = self._spark._jsparkSession
        execution = self._queries[name]._jsq.streamingQuery()
        query = jvm.org.apache.spark.sql.megaphone.RunningQuery(execution)
        stores = jvm.scala.jdk.javaapi.CollectionConverters.asScala(_STORES).toSeq()
        pins = jvm.org.apache.spark.sql.megaphone.Pins
        pins.pin(session, query, 0, stores, worker, "127.0.0.1", executor)

    def exit(self) -> None:
        self._spark.stop()

    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()

    def _infos(self) -> list[Any]:
        jvm: Any = self._spark._jvm
        members = jvm.org.apache.spark.sql.megaphone.Cluster.executors(self._context())
        return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(members))


def _totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))


def _wide_totals(rows: DataFrame) -> DataFrame:
    """Totals whose state has some 250 bytes for each key."""
    filled = f.max(f.repeat(f.col("v").cast("string"), 50)).alias("filled")
    totals = rows.groupBy("k").agg(f.count("*").alias("n"), f.sum("v").alias("s"), filled)
    return totals.where("length(filled) > 0").drop(
        "filled"
    )  # a column that nobody reads is not kept


def _distinct_totals(rows: DataFrame) -> DataFrame:
    return _totals(rows.dropDuplicates(["k", "v"]))


def _windows(rows: DataFrame) -> DataFrame:
    windows = rows.withWatermark("t", "10 seconds").groupBy(
        f.window("t", f"{WINDOW_SECONDS} seconds"), "k"
    )
    totals = windows.agg(f.count("*").alias("n"), f.sum("v").alias("s"))
    return totals.select(f.unix_timestamp("window.start").alias("w"), "k", "n", "s")


def _joined(rows: DataFrame) -> DataFrame:
    """Each row beside the one of its key before it."""
    before = rows.select(f.col("k").alias("k2"), f.col("v").alias("w"))
    return rows.join(before, f.expr(f"k = k2 and v = w + {KEYS}")).select("k", "v", "w")


_KINDS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "totals": (_totals, "update"),
    "wide": (_wide_totals, "update"),
    "distinct": (_distinct_totals, "update"),
    "windows": (_windows, "append"),
    "joined": (_joined, "append"),
}


def _to_files(folder: Path) -> Callable[[DataFrame, int], None]:
    folder.mkdir(parents=True, exist_ok=True)

    def write(rows: DataFrame, batch: int) -> None:
        part = folder / f"{batch}.{os.getpid()}.part"
        part.write_text(json.dumps([list(r) for r in rows.collect()]))
        part.rename(folder / f"{batch}.json")

    return write


def main() -> None:
    # The JVM writes to standard output too: answers have it to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    workload = Workload(json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps({"result": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        verb = command.pop("do")
        try:
            answer = {"result": getattr(workload, verb)(**command)}
        except MegaphoneError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)[:6000]}
        print(json.dumps(answer), file=answers, flush=True)
        if verb == "exit":
            return


if __name__ == "__main__":
    main()
