# SPDX-License-Identifier: Apache-2.0
"""A link of a given rate between processes.

They run in a network namespace of their own, in which there is nothing but a loopback device. A
token bucket of the kernel limits it: what they tell each other goes through one link, in both
directions together. The namespace ends with the processes in it; nothing of the machine's own
network is changed. Linux only; where a user may not make namespaces, `root` is needed.
"""

import contextlib
import functools
import shutil
import subprocess
from collections.abc import Iterator, Sequence

NARROW_BURST_BYTES = 700  # more than a packet
PORTS = 8  # so many of them, from a multiple of it on, may be narrowed
_MTU = 576
_BURST = "256kb"
_QUEUE = "50ms"


def behind(kb_per_second: int, command: Sequence[str]) -> list[str]:
    """The command that runs another one where processes tell each other so many kB a second."""
    script = f'ip link set lo up && {_limited(kb_per_second)} && exec "$@"'
    return ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh", *command]


@contextlib.contextmanager
def narrowed(process: int, port: int, kb_per_second: int, otherwise: int) -> Iterator[None]:
    """Behind the link of a process, the `PORTS` from one on have a rate of their own meanwhile.

    At most `NARROW_BURST_BYTES` go ahead of it, however long nothing was told before. Other ports
    have no limit. Afterwards all have the rate `otherwise` together.
    """
    port_of = [f"match ip {end} {port} {0x10000 - PORTS:#x}" for end in ("sport", "dport")]
    filters = [f"tc filter add dev lo parent 1: protocol ip u32 {m} flowid 1:2" for m in port_of]
    narrow = [
        f"ip link set lo mtu {_MTU}",  # a packet may not be larger than what goes ahead
        "tc qdisc del dev lo root",
        "tc qdisc add dev lo root handle 1: htb",
        "tc class add dev lo parent 1: classid 1:2 htb rate 10gbit quantum 60000",
        f"tc qdisc add dev lo parent 1:2 {_bucket(kb_per_second, f'{NARROW_BURST_BYTES}b', '2s')}",
        *filters,
    ]
    _run_behind(process, " && ".join(narrow))
    try:
        yield
    finally:
        _run_behind(process, f"tc qdisc del dev lo root && {_limited(otherwise)}")


def _limited(kb_per_second: int) -> str:
    return f"tc qdisc add dev lo root {_bucket(kb_per_second, _BURST, _QUEUE)}"


def _bucket(kb_per_second: int, burst: str, queue: str) -> str:
    return f"tbf rate {8 * kb_per_second}kbit burst {burst} latency {queue}"


def _run_behind(process: int, script: str) -> None:
    entered = ["nsenter", f"--target={process}", "--user", "--net", "--preserve-credentials"]
    subprocess.run([*entered, "sh", "-c", script], check=True)


@functools.cache
def missing() -> str | None:
    """Why there can be no such link here; None if there can."""
    for tool in ("unshare", "nsenter", "ip", "tc"):
        if shutil.which(tool) is None:
            return f"the command {tool} is not there; install util-linux and iproute2"
    tried = subprocess.run(behind(1000, ["true"]), capture_output=True, text=True, check=False)
    return tried.stderr.strip() or None
