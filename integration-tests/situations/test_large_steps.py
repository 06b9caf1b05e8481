# SPDX-License-Identifier: Apache-2.0
"""A step that moves more than its executors may copy while tails lead on from images: its replica
is made of the checkpoint's files, slice by slice.
"""

import pytest

from testkit.driver_process import DriverProcess
from testkit.faults import Faults
from testkit.input import Pattern
from testkit.remote import MakeRemoteQuery, RemoteQuery

MANY = Pattern(keys=200_000, rows=200_000, step=200_000)  # two slices of each worker
FEW = Pattern(keys=200_000, rows=50, step=50)  # tails are small beside that
BATCHES_TO_COPY = 600
SLOW = {
    # 48 batches of a second each bear less than the step moves.
    "spark.megaphone.transfer.maxBytesPerSecond": "200k",
    # A loaded machine may copy nothing for some batches, and no step shall read files for that.
    "spark.megaphone.transfer.patienceBatches": "100",
}


@pytest.mark.slow
@pytest.mark.parametrize("format", [1, 2])
def test_a_large_step_is_made_of_files_while_batches_go_on(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = begun(shared, make_remote_query, format)
    batches = query.input.batches
    plan = move_nearly_all(query)
    assert query.finish(plan, within=BATCHES_TO_COPY)["batches"][-1] - batches > 20
    came = arrived(query)
    assert came["bins_from_checkpoint"] == 0, "the step's batch has read files"
    assert came["bytes_from_checkpoint"] > came["bytes_from_peer"]
    query.stop_and_check()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["target-pulling", "step-opening"])
def test_the_target_of_a_large_step_dies(
    point: str, shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    """While it reads a slice, and while it takes what the slices have made."""
    query = begun(shared, make_remote_query, format=2)
    plan = move_nearly_all(query)
    query.run(10)
    faults.arm(point)
    query.finish(plan, within=BATCHES_TO_COPY)
    faults.wait(point)
    query.stop_and_check()


def begun(driver: DriverProcess, make: MakeRemoteQuery, format: int) -> RemoteQuery:
    query = make(driver, kind="wide", format=format, pattern=MANY, **SLOW)
    query.spread()
    query.input.pattern = FEW
    query.run(5)  # it is known now what a batch takes
    return query


def move_nearly_all(query: RemoteQuery) -> str:
    """Moves the bins of worker 0 to worker 1, but for one."""
    moves = dict.fromkeys(query.bins_of(0)[1:], 1)
    return query.submit("move", moves, mode="prepared", strategy="all-at-once")


def arrived(query: RemoteQuery) -> dict[str, int]:
    """What came to worker 1 with the step."""
    rows = [row for row in query.table("migrations") if row["worker"] == 1 and row["bins_in"]]
    return rows[-1]
