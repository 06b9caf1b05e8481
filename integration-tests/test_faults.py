# SPDX-License-Identifier: Apache-2.0
"""Executors that die at every point of a move: the plan ends, the query goes on, and no row is wrong."""

import pytest

from drivers import DriverProcess
from faults import Faults
from queries import MakeQuery

SOURCE, TARGET = 0, 1
slow = pytest.mark.slow


@pytest.mark.parametrize("point", ["source-published", "target-pulling", "target-prepared", "step-opened", "step-committed"])
def test_executor_dies(point: str, shared: DriverProcess, faults: Faults, make_query: MakeQuery) -> None:
    query = make_query(shared)
    query.feed(2)
    source, target = query.executor_of(SOURCE), query.executor_of(TARGET)
    assert source != target
    faults.arm(point)
    plan = query.move_half(SOURCE, TARGET)
    query.feed()
    row = query.finish(plan)
    victim = faults.struck(point)
    print(point, victim, source, target, row)
    query.feed()
    query.check()
