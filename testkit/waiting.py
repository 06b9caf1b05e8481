# SPDX-License-Identifier: Apache-2.0
"""Waits for what other processes do: it is looked for until it is there."""

import time
from collections.abc import Callable

_POLL_S = 0.2  # what is asked for takes a process of its own, or the driver's time


def until(is_so: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Waits for `what`, an event which must come in time.

    Raises:
        TimeoutError: It did not; the sentence names it.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not within {seconds:.0f} s: {what}.")
        time.sleep(_POLL_S)
