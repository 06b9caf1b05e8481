# SPDX-License-Identifier: Apache-2.0
"""What tests of placement ask a driver, and wait for."""

import signal
from collections import Counter
from typing import Any

from testkit.driver_process import DriverProcess
from testkit.remote import RemoteQuery
from testkit.waiting import until

REPLICAS = "spark.megaphone.replicas"
_STANDBY_SECONDS = 60
_BATCHES = 60


def drain_of(driver: DriverProcess, executor: str) -> dict[str, Any] | None:
    """The executor's row of the table of drains; None if there is none."""
    return next((row for row in driver.call("drains") if row["executor"] == executor), None)


def status_of(driver: DriverProcess, executor: str) -> object:
    """The status of an executor's drain; None if there is none."""
    return (drain_of(driver, executor) or {}).get("status")


def is_drained(driver: DriverProcess, executor: str) -> bool:
    """Whether the executor has been emptied, and may go."""
    return status_of(driver, executor) == "drained"


def workers_by_executor(query: RemoteQuery) -> Counter[str]:
    """How many workers ran on each executor last."""
    return Counter(row["executor"] for row in query.table("workers"))


def recovered_later(query: RemoteQuery, after: int = 0) -> list[dict[str, Any]]:
    """Workers of which batches after one have read bins from the checkpoint, not tails alone."""
    moves = query.migrations_after(after)
    return [row for row in moves if row["is_recovery"] or row["bins_from_checkpoint"]]


def read_later(query: RemoteQuery, worker: int, after: int) -> list[dict[str, Any]]:
    """What a worker's executor had not of its state, in each batch after one: tails, or bins."""
    return [row for row in query.migrations_after(after) if row["worker"] == worker]


def newest_batch(query: RemoteQuery) -> int:
    """The batch that all workers have committed last."""
    (batch,) = {int(row["last_batch"]) for row in query.table("workers")}
    return batch


def state_of(driver: DriverProcess, executor: str) -> str:
    """The state of an executor that has reported."""
    return next(str(row["state"]) for row in driver.call("held") if row["executor"] == executor)


def wait_for_standbys(query: RemoteQuery) -> None:
    """Runs batches until each worker has a standby with all of its state."""

    def all_stand_by() -> bool:
        query.run()
        return all(row["standbys"] == 1 for row in query.table("workers"))

    until(all_stand_by, "each worker has a standby", _STANDBY_SECONDS)


def finish_relocations(query: RemoteQuery) -> None:
    """Runs batches until each relocation has ended."""
    query.run_until(
        lambda: all(row["status"] not in ("making", "taken") for row in query.table("relocations")),
        "the relocations end",
        within=_BATCHES,
    )


def relocations_of(query: RemoteQuery, worker: int) -> list[dict[str, Any]]:
    """The worker's relocations, the newest last."""
    return [row for row in query.table("relocations") if row["worker"] == worker]


def relocation_of(query: RemoteQuery, worker: int) -> dict[str, Any]:
    """The worker's only relocation."""
    (row,) = relocations_of(query, worker)
    return row


def is_copied(query: RemoteQuery, worker: int) -> bool:
    """Whether the target of a worker's newest relocation has all of its state, which is known."""
    row = relocations_of(query, worker)[-1]
    return bool(row["bytes"]) and bool(row["bytes_ready"] == row["bytes"])


def recovered_after_the_loss_of(
    worker: int,
    query: RemoteQuery,
    driver: DriverProcess,
    by: signal.Signals = signal.SIGKILL,
) -> list[dict[str, Any]]:
    """Kills a worker's executor; what was then read from the checkpoint, but for tails."""
    before = newest_batch(query)
    driver.kill_executor(query.executor_of(worker), by)
    query.run(2)
    return recovered_later(query, before)


def others_stand_by_again(query: RemoteQuery, driver: DriverProcess) -> None:
    """Whoever was lost is replaced, and the next loss costs nothing but tails. Ends the query."""
    driver.wait_for_executors()
    wait_for_standbys(query.spread())
    assert not recovered_after_the_loss_of(0, query, driver), "others stand by again"
    query.stop_and_check()
    driver.wait_for_executors()


def goes_on_with_standbys(query: RemoteQuery, driver: DriverProcess) -> None:
    """The query starts on a driver; its workers get standbys, and one goes on from its own."""
    query.start(driver).spread()
    query.check()
    wait_for_standbys(query)
    assert not recovered_after_the_loss_of(0, query, driver)
    query.stop_and_check()
