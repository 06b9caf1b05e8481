# SPDX-License-Identifier: Apache-2.0
"""An S3 server on this machine: a process of its own that keeps all in memory and logs requests."""

import contextlib
import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testkit.server import HOST, Server, free_ports, jars, running

BUCKET = "checkpoints"
_COLOURS = re.compile(r"\x1b\[\d+m")  # the server paints what it refuses
_REQUEST = re.compile(r'"(?P<verb>[A-Z]+) /(?P<path>\S*) HTTP/1\.1" (?P<status>\d+)')


@dataclass(frozen=True)
class Request:
    """A request that the server has answered: its verb, its path with the query, its status."""

    verb: str
    path: str
    status: int


class ObjectStore:
    """A running server, made by `object_store`."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self._port = server, port
        server.wait(self._answers, "the S3 server answers")
        self._ask(f"/{BUCKET}", "PUT")

    @property
    def root(self) -> str:
        """A folder in the store, as Spark names it."""
        return f"s3a://{BUCKET}"

    @property
    def settings(self) -> dict[str, str]:
        """What a session needs to use it."""
        class_path = f"{jars('s3a')}/*"
        s3a = {
            "endpoint": f"http://{HOST}:{self._port}",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }
        return {f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()} | {
            "spark.driver.extraClassPath": class_path,
            "spark.executor.extraClassPath": class_path,
        }

    def requests(self) -> list[Request]:
        """The requests since the last call."""
        return [
            Request(match["verb"], match["path"], int(match["status"]))
            for match in _REQUEST.finditer(_COLOURS.sub("", self.server.logged()))
        ]

    def asked(self) -> list[str]:
        """Paths of the requests since the last call of this or `requests`."""
        return [request.path for request in self.requests()]

    def deleted(self) -> list[str]:
        """Paths of the objects that were deleted since the last call of this or `requests`."""
        return [request.path for request in self.requests() if request.verb == "DELETE"]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            self._ask("/", "GET")
            return True
        return False

    def _ask(self, path: str, verb: str) -> None:
        asked = urllib.request.Request(f"http://{HOST}:{self._port}{path}", method=verb)
        urllib.request.urlopen(asked, timeout=60).close()


@contextlib.contextmanager
def object_store(folder: Path, delay_ms: int = 0) -> Iterator[ObjectStore]:
    """A server with one empty bucket; it has ended afterwards.

    Args:
        folder: For its log; made.
        delay_ms: How long each request takes at least.
    """
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "testkit.s3_server", HOST, str(port), str(delay_ms)]
    with running(command, folder) as server:
        yield ObjectStore(server, port)
