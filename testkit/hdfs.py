# SPDX-License-Identifier: Apache-2.0
"""An HDFS on this machine: a name node and a data node in one process, which logs operations."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from testkit.server import HOST, Server, free_ports, jars, running

PROGRAM = Path(__file__).with_name("Hdfs.java")
_MEMORY = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.log.ref = log
logger.audit.name = org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit
logger.audit.level = info
appender.log.name = log
appender.log.type = Console
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %m%n%ex
"""
_READY = "HDFS is there\n"
_OPERATION = re.compile(r"\tcmd=(?P<verb>\S+).*?\tsrc=(?P<path>\S+)\tdst=(?P<to>\S+)")


@dataclass(frozen=True)
class Operation:
    """An operation that the name node has been asked for: its verb, its path, a rename's target."""

    verb: str
    path: str
    to: str


class Hdfs:
    """A running HDFS, made by `hdfs`."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self._port = server, port
        server.wait(lambda: _READY in server.log.read_text(errors="replace"), "HDFS answers")

    @property
    def root(self) -> str:
        """Its root, as Spark names it."""
        return f"hdfs://{HOST}:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a session needs to use it."""
        client = {
            "replication": "1",
            # A client that closes a file waits so long where its last block is not reported yet.
            "client.block.write.locateFollowingBlock.initial.delay.ms": "10",
            "client.block.write.locateFollowingBlock.retries": "12",  # each waits twice as long
        }
        return {f"spark.hadoop.dfs.{key}": value for key, value in client.items()}

    def operations(self) -> list[Operation]:
        """What was asked of the name node since the last call, as its audit log tells."""
        return [
            Operation(match["verb"], match["path"], match["to"])
            for match in _OPERATION.finditer(self.server.logged())
        ]

    def asked(self) -> list[str]:
        """Paths of the operations since the last call of this or `operations`."""
        return [operation.path for operation in self.operations()]

    def deleted(self) -> list[str]:
        """Paths of what was deleted since the last call of this or `operations`."""
        return [operation.path for operation in self.operations() if operation.verb == "delete"]


@contextlib.contextmanager
def hdfs(folder: Path, delay_ms: int = 0) -> Iterator[Hdfs]:
    """An HDFS with no files; it has ended afterwards.

    Args:
        folder: For its files and its log; made.
        delay_ms: How long each request of the name node takes at least.
    """
    # The data node and the rest of Hadoop's servers; PySpark has its client, and what all log with.
    class_path = f"{jars('hdfs')}/*:{Path(pyspark.__file__).parent}/jars/*"
    folder.mkdir(parents=True)
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    options = [*_MEMORY, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path]
    (port,) = free_ports(1)
    arguments = [str(folder / "files"), str(port), str(delay_ms)]
    with running(["java", *options, str(PROGRAM), *arguments], folder / "server") as server:
        yield Hdfs(server, port)
