# SPDX-License-Identifier: Apache-2.0
"""A real Spark Connect server with the plugin, and queries of its clients."""

import contextlib
import os
import pickle
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import spark_megaphone
from testkit import jvm, server
from testkit.answers import Rows, rows_of
from testkit.in_process import InProcessQuery

_MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A running server.

    Attributes:
        url: Where clients find it.
    """

    def __init__(self, port: int) -> None:
        self.url = f"sc://{server.HOST}:{port}"
        self._sessions: list[Any] = []

    def session(self) -> Any:
        """A new session of a new client, which is closed with the server at the latest."""
        from pyspark.sql.connect.session import SparkSession

        made: Any = SparkSession.builder.remote(self.url).create()
        if not hasattr(SparkSession, "newSession"):
            made.newSession = self.session  # which clients of Spark 4.2 lack
        self._sessions.append(made)
        return made

    def close_sessions(self) -> None:
        """Closes all sessions: one that outlives its server hangs for minutes."""
        for session in self._sessions:
            with contextlib.suppress(Exception):
                session.stop()


@contextlib.contextmanager
def connect_server(
    folder: Path, *, plugin: bool = True, settings: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """Starts a server on `local[2]`, as a user would; it has ended afterwards."""
    (port,) = server.free_ports(1)
    given = {
        **jvm.settings(),
        "spark.connect.grpc.binding.address": server.HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.streaming.noDataProgressEventInterval": "1h",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(spark_megaphone.options() if plugin else {}),
        **(settings or {}),
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--master", "local[2]", "--driver-memory", "1g", "--class", _MAIN_CLASS]
    for key, value in given.items():
        command += ["--conf", f"{key}={value}"]
    environment = os.environ | jvm.environment() | {"PYSPARK_PYTHON": sys.executable}
    with server.running([*command, "spark-internal"], folder / "server", environment) as running:
        running.wait(lambda: _answers(port), "the Spark Connect server")
        made = ConnectServer(port)
        try:
            yield made
        finally:
            made.close_sessions()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((server.HOST, port), 1):
        return True
    return False


class ConnectQuery(InProcessQuery):
    """A query of a client of a server. Its rows come back as files, which the server writes."""

    def start(self) -> "ConnectQuery":
        self._rows.mkdir(parents=True, exist_ok=True)
        try:
            super().start()
        except PySparkException as error:
            # The server gives its own Python process ten seconds, whatever the machine does.
            if "failed to connect back" not in str(error):
                raise
            super().start()
        return self

    @property
    def given(self) -> dict[int, Rows]:
        files = self._rows.glob("*.rows")
        return {int(file.stem): pickle.loads(file.read_bytes()) for file in files}

    @property
    def sink(self) -> Any:
        return _Written(self._rows)

    @property
    def _rows(self) -> Path:
        return self.folder / "rows"


class _Written:
    """Writes the rows of each batch to a file; the server's Python process runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, rows: DataFrame, batch: int) -> None:
        hidden = self.folder / f"{batch}.part"
        hidden.write_bytes(pickle.dumps(rows_of(rows)))
        hidden.rename(self.folder / f"{batch}.rows")
