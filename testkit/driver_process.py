# SPDX-License-Identifier: Apache-2.0
"""Driver processes as a test holds them: starts, tells what to do, kills; leaves nothing behind."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from testkit import jvm, link, processes
from testkit.processes import Process
from testkit.waiting import until

_EXECUTORS = re.compile(r"local-cluster\[(\d+),")
START_SECONDS = 240
CALL_SECONDS = 240
_LOOK_S = 0.3


class Refused(Exception):  # noqa: N818 (it is what the driver said, not a fault of ours)
    """An error that the driver answered: `name` is its class, the text its message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class DriverProcess:
    """A driver with executors of its own. All of it runs in `folder`, in one process group.

    Args:
        folder: Made anew.
        settings: Spark's, beside and above those that all drivers have. The driver's class path
            is the executors', too.
        meanwhile: Called a few times a second while an answer is awaited.
        link_kb: What all its processes tell each other in a second at most, in kB.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str],
        meanwhile: Callable[[], None] = lambda: None,
        link_kb: int | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        all_settings = _settings(folder, settings)
        config = folder / "config.json"
        config.write_text(json.dumps(all_settings))
        asked = _EXECUTORS.match(all_settings["spark.master"])
        told = ("spark.dynamicAllocation.initialExecutors", "spark.executor.instances")
        first = next((all_settings[key] for key in told if key in all_settings), None)
        self._executors = int(first or (asked[1] if asked else 1))
        environment = os.environ | {
            **jvm.environment(settings.get("spark.driver.extraClassPath", "")),
            "SPARK_HOME": str(jvm.spark_home(folder / "spark")),
            "TMPDIR": str(folder),
            "PYSPARK_PYTHON": sys.executable,
        }
        program = [sys.executable, "-m", "testkit.driver_program", str(config)]
        with (folder / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                program if link_kb is None else link.behind(link_kb, program),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=folder,
                start_new_session=True,
                text=True,
            )
        self._link_kb = link_kb
        self._meanwhile = meanwhile
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._answer("start", START_SECONDS)

    def call(self, verb: str, /, *, timeout: float = CALL_SECONDS, **arguments: Any) -> Any:
        """Sends one command, and returns its answer.

        Raises:
            Refused: The driver answered with an error.
            EOFError: The driver has died.
            TimeoutError: There was no answer in time.
        """
        self.send(verb, **arguments)
        return self._answer(verb, timeout)

    def send(self, verb: str, /, **arguments: Any) -> None:
        """Sends one command; `answer` returns the answer, if the driver lives to give it."""
        assert self.process.stdin is not None
        print(json.dumps({"do": verb, **arguments}), file=self.process.stdin, flush=True)

    def answer(self, timeout: float = CALL_SECONDS) -> Any:
        """The answer to what was sent."""
        return self._answer("answer", timeout)

    def wait_until_paused(self) -> None:
        """Waits until the driver's JVM stands still: a fault point has sent it SIGSTOP."""
        until(lambda: self._jvm()[1] == "T", "the driver stands still")

    def resume(self) -> None:
        """Lets a driver that stands still go on."""
        os.kill(self._jvm()[0], signal.SIGCONT)

    @property
    def jvm(self) -> int:
        """Process of the driver's JVM. Raises LookupError if it has ended."""
        return self._jvm()[0]

    @property
    def is_alive(self) -> bool:
        """Whether the driver's JVM has not ended; it may stand still."""
        return any(self._is_jvm(p) for p in self._listed())

    def _jvm(self) -> tuple[int, str]:
        """Id and state of the driver's JVM: the one that Python began. Others come and go."""
        for p in self._listed():
            if self._is_jvm(p):
                return p.pid, p.state
        raise LookupError("The driver's JVM has ended.")

    def _is_jvm(self, process: Process) -> bool:
        return process.parent == self.process.pid and "java" in process.command

    def executors(self) -> dict[str, int]:
        """Process of each executor, by executor id."""
        return processes.executors(self._listed())

    def executor_logs(self) -> dict[str, str]:
        """What each executor of a `local-cluster` has logged, also one that has ended."""
        logs = self.folder.glob("spark/work/*/*/stderr")
        return {log.parent.name: log.read_text(errors="replace") for log in logs}

    def processes_count(self) -> int:
        """How many processes it has: of Python, of the driver's JVM, of executors."""
        return len(self._listed())

    @contextlib.contextmanager
    def occupied(self, *executors: str) -> Iterator[Callable[[str], None]]:
        """A task has a core of each of some idle executors meanwhile.

        Yields what frees one of them before the others.
        """
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        begun, ended = folder / "begun", folder / "ended"
        for each in (begun, ended):
            each.mkdir()
        processes = {executor: self.executors()[executor] for executor in executors}

        def free(executor: str) -> None:
            (ended / str(processes[executor])).touch()

        told = [*processes.values()]
        self.call("occupy", processes=told, begun=str(begun), ended=str(ended))
        try:
            until(lambda: len(list(begun.iterdir())) == len(executors), f"{executors} are busy")
            yield free
        finally:
            for executor in executors:
                free(executor)

    @contextlib.contextmanager
    def frozen(self, executor: str) -> Iterator[None]:
        """An executor of one core stands still meanwhile, and is given no task."""
        with self.occupied(executor):
            process = self.executors()[executor]
            os.kill(process, signal.SIGSTOP)
            try:
                yield
            finally:
                os.kill(process, signal.SIGCONT)

    @contextlib.contextmanager
    def narrowed(self, port: int, link_kb: int) -> Iterator[None]:
        """Some ports of its link, from one on, pass so many kB in a second meanwhile."""
        assert self._link_kb is not None, "it has no link"
        with link.narrowed(self.process.pid, port, link_kb, otherwise=self._link_kb):
            yield

    def wait_for_executors(self) -> None:
        """Waits until all its executors are registered: one that was killed is replaced."""
        count = self._executors
        until(lambda: len(self.call("executors")) == count, f"{count} executors are there", 180)

    def check_nothing_is_held(self, workers: bool = False) -> None:
        """No executor keeps a replica or a block; nor, if `workers` says so, any worker's state."""
        kinds = ("replicas", "blocks", "workers") if workers else ("replicas", "blocks")
        until(
            lambda: not any(row[kind] for row in self.call("held") for kind in kinds),
            f"the executors drop their {' and '.join(kinds)}",
        )

    def kill_executor(self, executor: str, by: signal.Signals = signal.SIGKILL) -> None:
        """Ends an executor's process by a signal, and waits until it is gone."""
        self.kill_executors([executor], by)

    def kill_executors(self, executors: Iterable[str], by: signal.Signals = signal.SIGKILL) -> None:
        """Ends some executors' processes at once, and waits until they are gone."""
        ending = [*executors]
        processes = self.executors()
        for executor in ending:
            os.kill(processes[executor], by)
        until(lambda: not {*ending} & self.executors().keys(), f"executors {ending} are gone")

    def resume_executor(self, executor: str) -> None:
        """Lets an executor go on that stands still."""
        os.kill(self.executors()[executor], signal.SIGCONT)

    def kill(self) -> None:
        """Kills the driver, JVM and Python; its executors must end by themselves."""
        for p in self._listed():
            if p.executor is None:
                _kill(p.pid)
        for pid in self.executors().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)  # one that stands still does not end
        self.process.wait(60)
        until(lambda: not self.executors(), "the executors of a dead driver end", 120)

    def close(self) -> None:
        """Ends the driver in good order. Whatever does not end then is killed.

        Raises:
            TimeoutError: Something had to be killed.
        """
        if self.process.poll() is None:
            try:
                self.call("exit", timeout=120)
                self.process.wait(60)
            except (EOFError, OSError, TimeoutError, Refused, subprocess.TimeoutExpired):
                pass
        try:
            until(lambda: not self._listed(), "all processes of a driver end", 60)
        finally:
            for p in self._listed():
                _kill(p.pid)
            self.process.wait(60)

    def _listed(self) -> list[Process]:
        """Each process of this driver that has not ended."""
        return [p for p in processes.listed() if p.group == self.process.pid]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _answer(self, verb: str, timeout: float) -> Any:
        line = self._line(verb, timeout)
        if line is None:
            self._answers.put(None)
            raise EOFError(f"the driver died in {verb}: see {self.folder / 'driver.log'}")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["message"])
        return answer["result"]

    def _line(self, verb: str, timeout: float) -> str | None:
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            with contextlib.suppress(queue.Empty):
                return self._answers.get(timeout=max(0.0, min(left, _LOOK_S)))
            if left <= 0:
                raise TimeoutError(f"the driver did not answer {verb} within {timeout} s")
            self._meanwhile()


MakeDriver = Callable[..., DriverProcess]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _settings(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    return {
        **jvm.settings(f"-Djava.io.tmpdir={folder} -XX:-UsePerfData"),
        "spark.master": "local-cluster[2,1,1024]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.locality.wait": "20s",
        "spark.sql.streaming.noDataProgressEventInterval": "1h",
        # Executors die all the time: who asks one is soon told so.
        "spark.shuffle.io.retryWait": "500ms",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **settings,
        **jvm.CLASS_PATHS,
    }
