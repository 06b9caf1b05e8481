# SPDX-License-Identifier: Apache-2.0
"""Servers that tests use: each is a process of its own on this machine, with a log."""

import contextlib
import ipaddress
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from testkit.waiting import until

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

HOST = "127.0.0.1"
_START_S = 120.0
_TARGET = Path(__file__).parents[1] / "target"


class Server:
    """A running server, made by `running`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self.log = process, log
        self._read = 0

    def logged(self) -> str:
        """The whole lines that it has logged since the last call."""
        with self.log.open("rb") as log:
            log.seek(self._read)
            lines = log.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        self._read += len(lines)
        return lines.decode(errors="replace")

    def wait(self, is_ready: Callable[[], bool], what: str) -> None:
        """Waits until it is ready.

        Raises:
            AssertionError: Others than this machine can reach it.
            RuntimeError: It has ended; the message has the end of its log.
        """
        until(lambda: self._has_ended() or is_ready(), what, _START_S)
        if self._has_ended():
            raise RuntimeError(
                f"Not there: {what}.\n{self.log.read_text(errors='replace')[-3000:]}"
            )
        elsewhere = sorted(str(a) for a in listening(self.process.pid) if not a.is_loopback)
        assert not elsewhere, f"{what}, and it listens on {elsewhere} too"

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """It stands still meanwhile, and answers nobody."""
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


def listening(pid: int) -> set[Address]:
    """The addresses that a process listens on by TCP."""
    sockets = psutil.Process(pid).net_connections(kind="tcp")
    told = {s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN}
    addresses = map(ipaddress.ip_address, told)
    return {getattr(address, "ipv4_mapped", None) or address for address in addresses}


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody uses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def taken_port() -> Iterator[dict[str, str]]:
    """Settings of a driver whose executors find the port taken that others would ask them at."""
    with socket.create_server((HOST, 0)) as taken:
        port = str(taken.getsockname()[1])
        yield {"spark.megaphone.transfer.port": port, "spark.port.maxRetries": "0"}


def jars(name: str) -> Path:
    """The folder with the jars that tests on a store need beside Spark."""
    folder = _TARGET / name
    assert folder.exists(), f"{folder} is missing; `make stores` fetches it"
    return folder


@contextlib.contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Starts a server in a new folder; it has ended afterwards.

    Its standard input ends when this process does. It has this process's environment, unless it is
    given another.
    """
    folder.mkdir(parents=True)
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
        )
    try:
        yield Server(process, log)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
