# SPDX-License-Identifier: Apache-2.0
"""Tasks that are killed while Python uses their state, on executors that live on: no row is wrong.

Spark serves Python's calls on a thread of its own, which may still be at work on the state when the
task has ended and the next attempt has begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from testkit.in_process import MakeQuery
from testkit.shapes import DATA_ONLY
from testkit.waiting import until

ROUNDS = 4
OUTPUT = "k long, n long, listed long"


def counting(armed: str, calling: str) -> StatefulProcessor:
    """Counts a key's rows in a value and in a list.

    While the file `armed` is there, a first attempt never ends: it calls its state again and again,
    and says so by the file `calling`. Defined in a function, so that it travels by value.
    """

    class Counting(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")
            self.values = handle.getListState("values", "v long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            from pyspark import TaskContext
            from pyspark.sql import Row

            new = [int(row.v) for row in rows]
            known = self.count.get()[0] if self.count.exists() else 0
            context = TaskContext.get()
            if Path(armed).exists() and context is not None and context.attemptNumber() == 0:
                Path(calling).touch()
                while True:
                    self.count.update((-1,))
                    self.values.appendList([(-1,)] * 100)
            self.count.update((known + len(new),))
            self.values.appendList([(v,) for v in new])
            listed = sum(1 for _ in self.values.get())
            yield Row(k=key[0], n=self.count.get()[0], listed=listed)

        def close(self) -> None: ...

    return Counting()


def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(f.count("*").alias("n"), f.count("*").alias("listed"))


def test_calls_of_killed_tasks_change_nobodys_state(
    spark: SparkSession, make_query: MakeQuery, tmp_path: Path
) -> None:
    armed, calling = tmp_path / "armed", tmp_path / "calling"

    def shape(rows: DataFrame) -> DataFrame:
        processor = counting(str(armed), str(calling))
        return rows.groupBy("k").transformWithState(processor, OUTPUT, "update", "None")

    query = make_query(shape, mode="update", **DATA_ONLY).start().run(2)
    for _ in range(ROUNDS):
        armed.touch()
        query.write()
        until(calling.exists, "a task calls its state")
        until(lambda: _killed_first_attempts(spark) > 0, "a task is killed")
        armed.unlink()
        calling.unlink()
        until(lambda: _killed_first_attempts(spark) == 0, "no first attempt is left")
        query.settle()
    query.check(expected=query.answer(counts))
    query.stop()
    query.start().run(1)  # from files
    query.check(expected=query.answer(counts))


def _killed_first_attempts(spark: SparkSession) -> int:
    """Kills the running tasks that are first attempts, and returns how many there were."""
    context: Any = spark.sparkContext._jsc.sc()
    store = context.statusStore()
    stages = store.activeStages()
    killed = 0
    for i in range(stages.size()):
        stage = stages.apply(i)
        tasks = store.taskList(stage.stageId(), stage.attemptId(), 1000)
        for j in range(tasks.size()):
            task = tasks.apply(j)
            if task.status() == "RUNNING" and task.attempt() == 0:
                killed += bool(context.killTaskAttempt(task.taskId(), True, "a test"))
    return killed
