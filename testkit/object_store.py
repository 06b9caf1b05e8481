# SPDX-License-Identifier: Apache-2.0
"""An S3 server on this machine: a process of its own that keeps all in memory and logs requests."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testkit.waiting import until

HOST = "127.0.0.1"
BUCKET = "checkpoints"
JARS = Path(__file__).parents[1] / "target" / "s3a"
_START_S = 60.0
_COLOURS = re.compile(r"\x1b\[\d+m")  # the server paints what it refuses
_REQUEST = re.compile(r'"(?P<verb>[A-Z]+) /(?P<path>\S*) HTTP/1\.1" (?P<status>\d+)')


@dataclass(frozen=True)
class Request:
    """A request that the server has answered: its verb, its path with the query, its status."""

    verb: str
    path: str
    status: int


@dataclass
class ObjectStore:
    """A running server, made by `object_store`."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    _read: int = 0

    @property
    def root(self) -> str:
        """A folder in the store, as Spark names it."""
        return f"s3a://{BUCKET}"

    @property
    def settings(self) -> dict[str, str]:
        """What a session needs to use it."""
        assert JARS.exists(), f"{JARS} is missing; `make s3a` fetches it"
        s3a = {
            "endpoint": f"http://{HOST}:{self.port}",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }
        return {f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()} | {
            "spark.driver.extraClassPath": f"{JARS}/*",
            "spark.executor.extraClassPath": f"{JARS}/*",
        }

    def requests(self) -> list[Request]:
        """The requests since the last call."""
        with self.log.open(errors="replace") as log:
            log.seek(self._read)
            text = _COLOURS.sub("", log.read())
            self._read = log.tell()
        return [
            Request(match["verb"], match["path"], int(match["status"]))
            for match in _REQUEST.finditer(text)
        ]

    def pause(self) -> None:
        """Lets it hang, as `kill -STOP` does."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        os.kill(self.process.pid, signal.SIGCONT)


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A server with one empty bucket; it has ended afterwards."""
    folder.mkdir(parents=True)
    with socket.socket() as found:
        found.bind((HOST, 0))
        port = found.getsockname()[1]
    log = folder / "requests.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "testkit.s3_server", HOST, str(port)]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        until(lambda: _answers(port), "the S3 server answers", _START_S)
        made = urllib.request.Request(f"http://{HOST}:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(made).close()
        yield ObjectStore(port, process, log)
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=5).close()
        return True
    return False
