# SPDX-License-Identifier: Apache-2.0
"""A link of a given rate between processes.

They run in a network namespace of their own, in which there is nothing but a loopback device. A
token bucket of the kernel limits it: what they tell each other goes through one link, in both
directions together. The namespace ends with the processes in it; nothing of the machine's own
network is changed. Linux only; where a user may not make namespaces, `root` is needed.
"""

import functools
import shutil
import subprocess
from collections.abc import Sequence

_BURST = "256kb"
_QUEUE = "50ms"


def behind(kb_per_second: int, command: Sequence[str]) -> list[str]:
    """The command that runs another one where processes tell each other so many kB a second."""
    rate = f"rate {8 * kb_per_second}kbit burst {_BURST} latency {_QUEUE}"
    script = f'ip link set lo up && tc qdisc add dev lo root tbf {rate} && exec "$@"'
    return ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh", *command]


@functools.cache
def missing() -> str | None:
    """Why there can be no such link here; None if there can."""
    for tool in ("unshare", "ip", "tc"):
        if shutil.which(tool) is None:
            return f"the command {tool} is not there; install util-linux and iproute2"
    tried = subprocess.run(behind(1000, ["true"]), capture_output=True, text=True, check=False)
    return tried.stderr.strip() or None
