# SPDX-License-Identifier: Apache-2.0
"""The back ends that a handle works on: the JVM of this process, and a Spark Connect server."""

from collections.abc import Callable
from functools import partial

import pytest

from testkit.in_process import InProcessQuery

BACK_ENDS = ("classic", "connect")

# Marks a test, or a module, that runs on both.
BOTH = pytest.mark.parametrize("back_end", BACK_ENDS, indirect=True)

# Marks one that runs on both in the long run, and on the classic one always.
BOTH_IN_THE_LONG_RUN = pytest.mark.parametrize(
    "back_end", ["classic", pytest.param("connect", marks=pytest.mark.slow)], indirect=True
)


def query_maker(request: pytest.FixtureRequest, back_end: str) -> Callable[..., InProcessQuery]:
    """Makes queries of a back end, on the fixture `spark` or `client`."""
    if back_end == "classic":
        return partial(InProcessQuery, request.getfixturevalue("spark"))
    from testkit.connect import ConnectQuery

    return partial(ConnectQuery, request.getfixturevalue("client"))
