# SPDX-License-Identifier: Apache-2.0
"""A link of a given rate between all processes of a benchmark, which starts itself again behind it:
see `testkit.link`.
"""

import os
import sys

from testkit.link import behind, missing

_INSIDE = "MEGAPHONE_BENCHMARK_LINK"


def limit(mb_per_second: int) -> None:
    """Goes on only in a process whose loopback device passes so many MB a second; 0 is no limit.

    This very command takes this process's place, there.

    Raises:
        SystemExit: There can be no such device; the message says what is missing.
    """
    if mb_per_second == 0 or _INSIDE in os.environ:
        return
    why = missing()
    if why is not None:
        raise SystemExit(f"--link cannot be had: {why}; or leave --link out.")
    command = behind(1000 * mb_per_second, [sys.executable, *sys.argv])
    os.execvpe(command[0], command, {**os.environ, _INSIDE: str(mb_per_second)})
