# SPDX-License-Identifier: Apache-2.0
"""The processes of this machine, and which of them are executors of Spark."""

import re
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

_EXECUTOR = re.compile(r"\bCoarseGrainedExecutorBackend\b.*--executor-id (\S+)")


class Process(NamedTuple):
    """A process: its id, that of its parent, its group, its state as `ps` tells it, its command."""

    pid: int
    parent: int
    group: int
    state: str
    command: str

    @property
    def executor(self) -> str | None:
        """The id of the executor that it is; None if it is none."""
        found = _EXECUTOR.search(self.command)
        return found.group(1) if found else None


def listed() -> list[Process]:
    """All processes that have not ended."""
    lines = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,pgid=,stat=,args="],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    rows = (line.split(None, 4) for line in lines)
    return [
        Process(int(r[0]), int(r[1]), int(r[2]), r[3][0], r[4])
        for r in rows
        if len(r) == 5 and r[3][0] != "Z"
    ]


def executors(among: Iterable[Process]) -> dict[str, int]:
    """The process of each executor, by executor id."""
    return {p.executor: p.pid for p in among if p.executor is not None}
