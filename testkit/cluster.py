# SPDX-License-Identifier: Apache-2.0
"""A Spark standalone cluster on this machine: a master and workers, each a process of its own.

The processes come from the installed `pyspark`, listen on 127.0.0.1 at ports that are free, and
keep all their files in one folder. They end with the `with` block, however it ends; only processes
that this module started are ever signalled, by their ids.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testkit import processes
from testkit.server import HOST, free_ports
from testkit.waiting import until

_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.name = log
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
_TO_CONSOLE = "appender.log.type = Console\nappender.log.target = SYSTEM_ERR\n"
_TO_FILE = "appender.log.type = File\nappender.log.fileName = {}\n"

_START_S = 120.0
_STOP_S = 20.0


@dataclass(frozen=True)
class Executor:
    """A running executor process: Spark's id for it, and its process id."""

    id: str
    pid: int


@dataclass
class Cluster:
    """A running cluster, made by `standalone_cluster`."""

    folder: Path
    cores: int
    memory: str
    master_port: int
    master_ui_port: int
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """What a session takes as its master."""
        return f"spark://{HOST}:{self.master_port}"

    @property
    def ui(self) -> str:
        """The master's page."""
        return f"http://{HOST}:{self.master_ui_port}"

    def conf(self) -> dict[str, str]:
        """What keeps a session on this cluster, on this machine, and within the folder."""
        return {
            "spark.master": self.url,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": self.memory,
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }

    def environment(self) -> dict[str, str]:
        """What a driver's JVM should have in its environment.

        It then logs to `driver.log` in the folder.
        """
        return {
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_CONF_DIR": str(self.folder / "conf-driver"),
            "PYSPARK_PYTHON": sys.executable,
        }

    def executors(self) -> list[Executor]:
        """The executor processes that run now, whichever application they belong to."""
        groups = {daemon.pid for daemon in self._daemons.values()}
        found = (p for p in processes.listed() if p.group in groups)
        executors = [Executor(p.executor, p.pid) for p in found if p.executor is not None]
        return sorted(executors, key=lambda e: (len(e.id), e.id))

    def kill_executor(self, id: str) -> Executor:
        """Kills an executor's process as `kill -9` does; the worker starts another in its place.

        Raises:
            LookupError: No executor of this cluster has this id.
        """
        for executor in self.executors():
            if executor.id == id:
                os.kill(executor.pid, signal.SIGKILL)
                return executor
        raise LookupError(f"The cluster runs no executor {id}.")

    def add_worker(self) -> None:
        """Starts one more worker; returns at once."""
        name = f"worker-{len(self._daemons)}"
        options = [
            "--host",
            HOST,
            "--webui-port",
            "0",
            "--cores",
            str(self.cores),
            "--memory",
            self.memory,
        ]
        options += ["--work-dir", str(self.folder / name), self.url]
        self._start(name, "org.apache.spark.deploy.worker.Worker", options)

    def kill_master(self) -> None:
        """Kills the master as `kill -9` does; nothing is started in its place."""
        self._daemons["master"].kill()
        self._daemons["master"].wait()

    @contextlib.contextmanager
    def frozen_master(self) -> Iterator[None]:
        """The master stands still meanwhile, and answers nobody."""
        master = self._daemons["master"].pid
        os.kill(master, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(master, signal.SIGCONT)

    def wait_for_workers(self, count: int) -> None:
        """Waits until the master knows so many living workers.

        Raises:
            RuntimeError: A process of the cluster has ended; the message has the end of its log.
            TimeoutError: They did not come.
        """
        until(
            lambda: self._alive_workers() >= count,
            f"{count} workers register at {self.url}",
            _START_S,
        )

    def _alive_workers(self) -> int:
        for name, daemon in self._daemons.items():
            if daemon.poll() is not None:
                log = (self.folder / f"{name}.log").read_text("utf-8", "replace")
                raise RuntimeError(
                    f"The {name} ended with status {daemon.returncode}:\n{log[-2000:]}"
                )
        try:
            with urllib.request.urlopen(f"{self.ui}/json/", timeout=5) as page:
                status: dict[str, Any] = json.load(page)
        except (OSError, ValueError):  # not up yet
            return 0
        return int(status["aliveworkers"])

    def _start(self, name: str, main_class: str, options: Sequence[str]) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            # Where these are set for a Spark of the user's, they would lead elsewhere.
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("SPARK_", "PYSPARK_"))
            },
            **self.environment(),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "512m",
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            self._daemons[name] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), main_class, *options],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C does not reach it, and a worker's executors are known
                # by it.
                start_new_session=True,
            )

    def _stop(self) -> None:
        # Workers first: told to end, a worker ends its executors.
        daemons = [daemon for _, daemon in sorted(self._daemons.items(), reverse=True)]
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for executor in self.executors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor.pid, signal.SIGKILL)


@contextlib.contextmanager
def standalone_cluster(
    folder: Path,
    workers: int = 2,
    cores: int = 1,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A master and workers, ready when the block begins, gone when it ends.

    Args:
        folder: For logs and the executors' files, absolute; made where it is not there, and left
            there. What executors log is in `worker-<n>/<application>/<executor>/stderr`.
        workers: How many worker processes; each runs one executor of an application that uses
            `conf()`.
        cores: Of each worker.
        memory: Of each worker.
        settings: Of master and workers.

    Raises:
        RuntimeError: A process could not start; the message has the end of its log.
        TimeoutError: The cluster did not come up.
    """
    for conf, target in (
        ("conf", _TO_CONSOLE),
        ("conf-driver", _TO_FILE.format(folder / "driver.log")),
    ):
        (folder / conf).mkdir(parents=True, exist_ok=True)
        (folder / conf / "log4j2.properties").write_text(_LOGGING + target, "utf-8")
    defaults = "".join(f"{key} {value}\n" for key, value in (settings or {}).items())
    (folder / "conf" / "spark-defaults.conf").write_text(defaults, "utf-8")
    port, ui_port = free_ports(2)
    cluster = Cluster(folder, cores, memory, port, ui_port)
    address = ["--host", HOST, "--port", str(cluster.master_port)]
    try:
        cluster._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            [*address, "--webui-port", str(cluster.master_ui_port)],
        )
        for _ in range(workers):
            cluster.add_worker()
        cluster.wait_for_workers(workers)
        yield cluster
    finally:
        cluster._stop()
