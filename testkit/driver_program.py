# SPDX-License-Identifier: Apache-2.0
"""The program of a driver process, which runs queries as a test tells it.

`python -m testkit.driver_program <configuration>`: a JSON file with Spark's settings. Each line of
standard input is a JSON command, `{"do": "start", ...}`; each is answered by a JSON line,
`{"result": ...}` or `{"error": ...}`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.resource import (
    ExecutorResourceRequests,
    ResourceProfileBuilder,
    TaskResourceRequests,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_megaphone import Megaphone, MegaphoneError, configure
from testkit import batch_files, topics
from testkit.answers import Rows, rows_of, state_of, totals_of
from testkit.input import SCHEMA
from testkit.shapes import KINDS

# Of every operator here: a join has four stores.
_STORES = [
    "default",
    *(
        f"{side}-{kind}"
        for side in ("left", "right")
        for kind in ("keyToNumValues", "keyWithIndexToValue")
    ),
]


def _winners(numbers: int, create: Callable[[int], bool]) -> list[int]:
    """Two threads create each number at the same time; how many of them succeeded."""
    with ThreadPoolExecutor(2) as writers:
        return [sum(writers.map(create, (number, number))) for number in range(numbers)]


def _runs_in(process: int) -> bool:
    """Whether this is a Python worker of an executor, told by its process."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()  # of the Python daemon
    return f"PPid:\t{process}\n" in status


class Driver:
    """The commands. Each public method is one."""

    def __init__(self, settings: dict[str, str]) -> None:
        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        self._spark = configure(builder).getOrCreate()
        self._queries: dict[str, StreamingQuery] = {}
        self._used: set[str] = set()
        self._jobs = ThreadPoolExecutor(1)

    def start(
        self,
        name: str,
        kind: str,
        source: str,
        checkpoint: str,
        sink: str,
        settings: dict[str, str],
    ) -> str:
        """Starts a query; returns the id of the run.

        The rows of each batch go into `<sink>/<batch>.json`, anew if it is run again.
        """
        self._use(settings)
        rows = KINDS[kind].shape(batch_files.stream(self._spark, Path(source), SCHEMA))
        writer = rows.writeStream.foreachBatch(_to_files(Path(sink)))
        return self._start(name, writer.outputMode(KINDS[kind].mode), checkpoint)

    def start_on_topics(
        self,
        name: str,
        kind: str,
        broker: str,
        source: str,
        checkpoint: str,
        sink: str,
        settings: dict[str, str],
    ) -> str:
        """Starts a query from one topic of a Kafka broker to another; returns the id of the run."""
        self._use(settings)
        rows = KINDS[kind].shape(topics.stream(self._spark, broker, source))
        writer = topics.writer(rows, broker, sink)
        return self._start(name, writer.outputMode(KINDS[kind].mode), checkpoint)

    def settle(self, name: str) -> int:
        """Waits until all files that are there are processed; returns the newest batch."""
        self._queries[name].processAllAvailable()
        progress = self._queries[name].lastProgress
        return -1 if progress is None else int(progress["batchId"])

    def submit(self, name: str, verb: str, what: Any, how: dict[str, Any]) -> str:
        """Submits a plan by a verb of the handle; returns its id."""
        if verb == "move":
            what = dict(what)
        return str(getattr(Megaphone(self._queries[name]), verb)(what, **how).id)

    def stayed(self, name: str, id: str) -> list[int]:
        """Bins of a plan that there was no room for, ascending."""
        return sorted(
            b for step in Megaphone(self._queries[name]).plan(id).steps for b in step.stayed
        )

    def cancel(self, name: str, id: str) -> None:
        Megaphone(self._queries[name]).cancel(id)

    def place(self, name: str, workers: dict[str, str], operator: int | None = None) -> None:
        """Takes workers to other executors: worker to executor."""
        places = {int(w): e for w, e in workers.items()}
        Megaphone(self._queries[name]).place(places, operator=operator)

    def spread(self, name: str) -> None:
        """Evens the load of the executors out."""
        Megaphone(self._queries[name]).spread()

    def drain(self, executor: str, within: float | None = None, release: bool = False) -> str:
        """Begins to empty an executor, in so many seconds; returns the status of its drain."""
        return Megaphone.drain(executor, timeout=within, release=release).status

    def undrain(self, executor: str) -> str:
        """Lets an executor keep its workers; returns the status of its drain."""
        drain = Megaphone.drain(executor)
        Megaphone.undrain(executor)
        return drain.status

    def request_executors(self, total: int) -> int:
        """Asks for so many executors in all; returns how many take state."""
        return Megaphone.request_executors(total)

    def drains(self) -> list[dict[str, Any]]:
        """The executors that were to be emptied."""
        rows: list[dict[str, Any]] = Megaphone.drains().to_pylist()
        return rows

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Runs a statement; its rows."""
        return [row.asDict() for row in self._spark.sql(statement).collect()]

    def table(self, name: str, which: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = getattr(Megaphone(self._queries[name]), which)().to_pylist()
        return rows

    def stop(self, name: str) -> float:
        """Stops a query; returns the seconds that it took."""
        began = time.monotonic()
        self._queries[name].stop()
        return time.monotonic() - began

    def forget(self, name: str) -> None:
        """Lets go of a query that has stopped for good."""
        del self._queries[name]

    def check_runs(self, name: str) -> None:
        """Raises what a query has failed with, if it has."""
        failure = self._queries[name].exception()
        if failure is not None:
            raise failure

    def is_active(self, name: str) -> bool:
        return bool(self._queries[name].isActive)

    def answer(self, kind: str, files: list[str]) -> Rows:
        """What a batch query of this kind answers over some files."""
        rows = batch_files.rows(self._spark, [Path(file) for file in files], SCHEMA)
        return rows_of((KINDS[kind].expected or KINDS[kind].shape)(rows))

    def totals_in_state(self, checkpoint: str, batch: int | None, operator: int) -> Rows:
        """The state of totals that a batch left, or the newest: key, count, sum."""
        return totals_of(state_of(self._spark, checkpoint, batch, operator))

    def large_in_state(self, checkpoint: str) -> Rows:
        """The rows of the newest state of the large join, with lengths and hashes of strings."""
        reader = self._spark.read.format("statestore").option("joinSide", "left")
        large = f.col("value.large")
        state = reader.load(checkpoint)
        return rows_of(state.select("value.k", "value.v", f.length(large), f.xxhash64(large)))

    def state_count(self, checkpoint: str, operator: int) -> int:
        """Rows of the newest state of an operator."""
        return state_of(self._spark, checkpoint, operator=operator).count()

    def race(self, root: str, numbers: int) -> list[int]:
        """Two threads append each number to the plan log of a checkpoint; how many succeeded."""
        jvm: Any = self._spark._jvm
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        log = jvm.io.megaphone.spark.checkpoint.HadoopPlanLog(root, conf)
        cancelled = getattr(jvm.io.megaphone.checkpoint.planlog, "LogRecord$Cancelled")
        record = cancelled("race", jvm.scala.Option.empty())
        return _winners(numbers, lambda number: bool(log.create(number, record)))

    def race_for_files(self, root: str, numbers: int) -> list[int]:
        """Two threads create each file, of the same bytes; how many were told that it is theirs."""
        jvm: Any = self._spark._jvm
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        files = jvm.io.megaphone.spark.checkpoint.SchemeCheckpointFileManager(
            jvm.org.apache.hadoop.fs.Path(root), conf
        )

        def create(number: int) -> bool:
            path = jvm.org.apache.hadoop.fs.Path(root, str(number))
            try:
                out = files.createAtomic(path, False)
                out.write(b"the same")
                out.close()
            except Py4JJavaError as error:
                if "FileAlreadyExistsException" in str(error):
                    return False
                raise
            return True

        return _winners(numbers, create)

    def writer_of(self, path: str) -> str:
        """Who wrote a file of an object store, as the file's metadata says."""
        jvm: Any = self._spark._jvm
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        file = jvm.org.apache.hadoop.fs.Path(path)
        attribute = file.getFileSystem(conf).getXAttr(file, "header.megaphone-writer")
        return bytes(attribute).decode()

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

    def ui(self) -> str:
        """The address of the live UI."""
        return str(self._spark.sparkContext.uiWebUrl)

    def stored_bytes(self) -> int:
        """Bytes of the blocks that all block managers have in memory, as the driver knows it."""
        jvm: Any = self._spark._jvm
        status = self._context().getExecutorMemoryStatus()
        found = jvm.scala.jdk.javaapi.CollectionConverters.asJava(status).values()
        return sum(int(each._1()) - int(each._2()) for each in found)

    def uncleaned(self) -> int:
        """How many shuffles and broadcasts are garbage that Spark has not begun to clean up behind.

        Spark looks at them one by one, and asks the executors for each.
        """
        cleaner = self._context().cleaner().get()
        watched = cleaner.getClass().getDeclaredField("referenceBuffer")
        watched.setAccessible(True)
        return sum(each.refersTo(None) for each in list(watched.get(cleaner)))

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
            and any(
                word in stack for word in ("Preparer", "BlockPeers", "TransferBlocks", "Sweeper")
            )
        ]

    def pin(self, name: str, worker: int, executor: str) -> None:
        """Wishes a worker of the first operator onto an executor, behind the driver's back."""
        jvm = self._spark._jvm
        assert jvm is not None
        session = self._spark._jsparkSession
        execution = self._queries[name]._jsq.streamingQuery()
        query = jvm.org.apache.spark.sql.megaphone.RunningQuery(execution)
        stores = jvm.scala.jdk.javaapi.CollectionConverters.asScala(_STORES).toSeq()
        pins = jvm.org.apache.spark.sql.megaphone.Pins
        pins.pin(session, query, 0, stores, worker, "127.0.0.1", executor)

    def fail_tasks_of(self, process: int) -> None:
        """Runs a job whose tasks fail in an executor, told by its process, and nowhere else."""

        def fail_there(rows: Iterable[int]) -> Iterable[int]:
            if _runs_in(process):
                raise RuntimeError("This executor is to fail.")
            return rows

        self._spark.sparkContext.parallelize(range(6), 6).mapPartitions(fail_there).count()

    def occupy(self, processes: list[int], begun: str, ended: str) -> None:
        """Has a job take a core of each of some executors, told by their processes.

        Each touches a file in `begun`, named by its process, and waits for such a file in `ended`.
        """

        def wait_there(rows: Iterable[int]) -> Iterable[int]:
            for process in filter(_runs_in, processes):
                Path(begun, str(process)).touch()
                while not Path(ended, str(process)).exists():  # Python workers know no testkit
                    time.sleep(0.1)
            return rows

        rows = self._spark.sparkContext.parallelize(range(6), 6).mapPartitions(wait_there)
        self._jobs.submit(rows.count)

    def stages(self) -> list[dict[str, Any]]:
        """The stages that jobs have had, in order, each with how near to its data each task ran."""
        jvm: Any = self._spark._jvm
        java = jvm.scala.jdk.javaapi.CollectionConverters.asJava
        store, every = self._context().statusStore(), jvm.java.util.ArrayList()
        gateway: Any = self._spark.sparkContext._gateway
        quantiles = gateway.new_array(jvm.double, 0)
        found = [
            {
                "stage": int(stage.stageId()),
                "attempt": int(stage.attemptId()),
                "status": str(stage.status()),
                "localities": [
                    str(task.taskLocality())
                    for task in java(store.taskList(stage.stageId(), stage.attemptId(), 1000))
                ],
            }
            for stage in java(store.stageList(every, False, False, quantiles, every))
        ]
        return sorted(found, key=lambda stage: (stage["stage"], stage["attempt"]))

    def run_on_another_profile(self) -> None:
        """Runs a job that has executors of a resource profile of its own."""
        builder = ResourceProfileBuilder()
        builder.require(ExecutorResourceRequests().cores(1).memory("512m"))
        builder.require(TaskResourceRequests().cpus(1))
        rows = self._spark.sparkContext.parallelize(range(2), 2)
        rows.withResources(builder.build).map(lambda row: row).count()

    def exit(self) -> None:
        self._spark.stop()

    def _use(self, settings: dict[str, str]) -> None:
        """Gives the session the settings of a query, and takes back those of the one before."""
        for key in self._used - settings.keys():
            self._spark.conf.unset(key)
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        self._used = set(settings)

    def _start(self, name: str, writer: DataStreamWriter, checkpoint: str) -> str:
        writer = writer.option("checkpointLocation", checkpoint).queryName(name)
        self._queries[name] = writer.start()
        return str(self._queries[name].runId)

    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()

    def _infos(self) -> list[Any]:
        jvm: Any = self._spark._jvm
        members = jvm.org.apache.spark.sql.megaphone.Cluster.executors(self._context())
        return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(members))


def _to_files(folder: Path) -> Callable[[DataFrame, int], None]:
    folder.mkdir(parents=True, exist_ok=True)

    def write(rows: DataFrame, batch: int) -> None:
        part = folder / f"{batch}.{os.getpid()}.part"
        part.write_text(json.dumps(rows_of(rows), default=str))
        part.rename(folder / f"{batch}.json")

    return write


def main() -> None:
    """Obeys until it is told to exit, or until nobody tells it anything more."""
    # The JVM writes to standard output too: answers have it to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    driver = Driver(json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps({"result": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        verb = command.pop("do")
        try:
            answer = {"result": getattr(driver, verb)(**command)}
        except MegaphoneError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)[:6000]}
        print(json.dumps(answer, default=str), file=answers, flush=True)
        if verb == "exit":
            return


if __name__ == "__main__":
    main()
