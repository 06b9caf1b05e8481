# SPDX-License-Identifier: Apache-2.0
"""A bin of three gibibytes on executors with a heap of four: it is written, moves in both modes, is
recovered and is read, and no executor dies of it.

Some twelve gibibytes of memory and twenty of disk must be free.
"""

from pathlib import Path

import pytest

from testkit.answers import check_rows
from testkit.driver_process import DriverProcess, MakeDriver
from testkit.input import Pattern
from testkit.remote import MakeRemoteQuery, RemoteQuery

KEYS = 48_000  # a quarter of them in the bin that becomes large
FEW = Pattern(keys=KEYS, rows=64, step=64)
TWO_GIB = Pattern(keys=KEYS, rows=38_000, step=38_000)  # what a batch adds to the bin
ONE_GIB = Pattern(keys=KEYS, rows=20_000, step=20_000)
LARGE_BYTES = 3 << 30
BIN, STORE = 0, "left-keyWithIndexToValue"
BATCHES_TO_COPY = 400  # a batch takes a second or two, a copy a minute or two


@pytest.mark.slow
def test_a_bin_of_three_gibibytes_is_written_moved_recovered_and_read(
    make_driver: MakeDriver, make_remote_query: MakeRemoteQuery, work: Path
) -> None:
    def driver() -> DriverProcess:
        return make_driver(
            **{
                "spark.master": "local-cluster[2,1,4096]",
                "spark.executor.memory": "4g",
                # The collector and the compiler of a real executor.
                "spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={work} -XX:-UsePerfData",
                "spark.shuffle.compress": "false",
                "spark.megaphone.bins": "4",
                "spark.megaphone.transfer.slowdown": "off",
                "spark.megaphone.transfer.tailDeadlineMs": "20000",
                "spark.megaphone.transfer.imageDeadlineMs": "200000",
            }
        )

    first = driver()
    # A loaded machine may copy nothing for some batches, and no step shall read files for that.
    patient = {"spark.megaphone.transfer.patienceBatches": "100"}
    query = make_remote_query(first, kind="large", pattern=FEW, **patient).spread()
    executors = first.executors()
    for pattern in (TWO_GIB, ONE_GIB, FEW):
        query.input.pattern = pattern
        query.run()
    assert query.bins_of(0) == [0, 2]

    for target, mode in ((1, "prepared"), (0, "direct")):
        query.finish(query.submit("move", {BIN: target}, mode=mode), within=BATCHES_TO_COPY)
        assert moved(query, target) == (1, 0), f"{mode}: {query.table('migrations')}"
        assert first.executors() == executors, f"an executor has died of mode {mode}"
        assert not heap_errors(first), f"{mode}: files may have served, but memory was short"
    query.stop()
    first.close()

    second = driver()
    query.start(second)
    executors = second.executors()
    query.run()
    recovered = [row for row in query.table("migrations") if row["is_recovery"]]
    assert sum(row["bytes_from_checkpoint"] for row in recovered) > LARGE_BYTES
    query.stop()
    query.check()
    found, expected = query.large_rows()
    assert sum(length or 0 for _, _, length, _ in expected) > LARGE_BYTES
    check_rows(found, expected)
    assert second.executors() == executors, "an executor has died of reading"
    assert not heap_errors(second)


def heap_errors(driver: DriverProcess) -> list[str]:
    """What the executors have logged of too small a heap."""
    lines = [line for log in driver.executor_logs().values() for line in log.splitlines()]
    return [line for line in lines if "OutOfMemoryError" in line]


def moved(query: RemoteQuery, target: int) -> tuple[int, int]:
    """How many large bins came into a worker last: from the other executor, and from files."""
    rows = [
        row
        for row in query.table("migrations")
        if row["worker"] == target and row["store"] == STORE and row["bins_in"]
    ]
    return rows[-1]["bins_from_peer"], rows[-1]["bins_from_checkpoint"]
