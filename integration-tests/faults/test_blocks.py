# SPDX-License-Identifier: Apache-2.0
"""Blocks that are lost, damaged or late on their way, and a stop in their midst: slower, never
wrong.
"""

from typing import Any

import pytest

from testkit.driver_process import DriverProcess
from testkit.faults import Faults
from testkit.remote import PATIENCE_BATCHES, MakeRemoteQuery
from testkit.waiting import until

STOP_SECONDS = 60
slow = pytest.mark.slow
# Source, target, and what becomes of the block between them.
NO_USE = (
    (0, 1, "block-published=damaged"),
    (1, 0, "block-published=lost"),
    (0, 1, "block-published=cut"),
    (1, 0, "block-pulled=late"),
)


@pytest.mark.parametrize(
    ("blocks", "mode", "format"),
    [
        (NO_USE[:1], "prepared", 2),
        pytest.param(NO_USE, "prepared", 2, marks=slow),
        pytest.param(NO_USE, "direct", 1, marks=slow),
        pytest.param(NO_USE, "on-demand", 1, marks=slow),
        pytest.param(NO_USE, "on-demand", 2, marks=slow),
    ],
)
def test_a_block_that_is_no_use_is_replaced_by_files(
    blocks: tuple[tuple[int, int, str], ...],
    mode: str,
    format: int,
    shared: DriverProcess,
    faults: Faults,
    make_remote_query: MakeRemoteQuery,
) -> None:
    query = make_remote_query(
        shared, format=format, **{"spark.megaphone.transfer.imageDeadlineMs": "1000"}
    ).spread()
    for source, target, entry in blocks:
        # Bins rest between two moves; a step that waits for that publishes more than one block.
        query.run(3)
        faults.arm(entry)
        plan = query.move_half(source, target, mode=mode)
        row = query.finish(plan)
        assert faults.struck(entry), f"no block came by {entry}"
        moved = [
            r for r in query.table("migrations") if r["batch"] in row["batches"] and r["bins_in"]
        ]
        assert sum(r["bins_in"] for r in moved) == row["moves"]
        if mode != "prepared":
            assert sum(r["bins_from_checkpoint"] for r in moved) == row["moves"], entry
    query.run(2)
    shared.check_nothing_is_held()
    query.stop_and_check()


def test_a_query_that_stops_in_mid_copy_leaves_no_work_behind(
    shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    settings = {
        "spark.megaphone.transfer.patienceBatches": "100",
        "spark.megaphone.transfer.imageDeadlineMs": "600000",  # who waited would wait for longer
    }
    query = make_remote_query(shared, **settings).spread()
    faults.arm("block-pulled=late")
    plan = query.move_half(0, 1)
    query.write(2)
    shared.send("settle", name=query.name)
    faults.wait("block-pulled=late")
    shared.answer()
    assert query.plan(plan)["status"] == "preparing"
    assert query.stop() < STOP_SECONDS
    until(lambda: not _at_work(shared), "the executors' copies are given up", STOP_SECONDS)
    shared.check_nothing_is_held(workers=True)
    query.start(shared).run()
    query.finish(plan)
    query.stop_and_check()


def test_a_plan_that_is_cancelled_in_mid_copy_moves_nothing(
    shared: DriverProcess, faults: Faults, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(
        shared, **{"spark.megaphone.transfer.patienceBatches": "100"}
    ).spread()
    bins = query.bins_of(0)
    faults.arm("block-pulled=late")
    plan = query.move_half(0, 1)
    query.run(2)
    faults.wait("block-pulled=late")
    query.call("cancel", id=plan)
    query.run(2)
    assert query.plan(plan)["status"] == "cancelled"
    assert query.bins_of(0) == bins
    shared.check_nothing_is_held()
    query.finish(query.move_half(0, 1), within=PATIENCE_BATCHES + 6)
    query.stop_and_check()


def _at_work(driver: DriverProcess) -> list[Any]:
    """The plugin's threads on the executors that are not idle."""
    threads: list[Any] = driver.call("threads")
    return threads
