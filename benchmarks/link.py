# SPDX-License-Identifier: Apache-2.0
"""A link of a given rate between all processes of a benchmark.

  1. The benchmark starts itself again in a network namespace of its own, in which there is nothing
     but a loopback device.
  2. A token bucket of the kernel limits that device: what driver and executors tell each other goes
     through one link, in both directions together.

The namespace ends with the processes in it; nothing of the machine's own network is changed. Linux
only; where a user may not make namespaces, `root` is needed.
"""

import os
import shutil
import sys

_INSIDE = "MEGAPHONE_BENCHMARK_LINK"
_BURST = "256kb"
_QUEUE = "50ms"


def limit(mb_per_second: int) -> None:
    """Goes on only in a process whose loopback device passes so many MB a second; 0 is no limit.

    This very command takes this process's place, there.

    Raises:
        SystemExit: There can be no such device; the message says what is missing.
    """
    if mb_per_second == 0 or _INSIDE in os.environ:
        return
    for tool in ("unshare", "ip", "tc"):
        if shutil.which(tool) is None:
            raise SystemExit(
                f"--link needs the command {tool}, which is not there; install util-linux and "
                "iproute2, or leave --link out."
            )
    rate = f"rate {8 * mb_per_second}mbit burst {_BURST} latency {_QUEUE}"
    script = f'ip link set lo up && tc qdisc add dev lo root tbf {rate} && exec "$@"'
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh"]
    inside = {**os.environ, _INSIDE: str(mb_per_second)}
    os.execvpe(command[0], [*command, sys.executable, *sys.argv], inside)
