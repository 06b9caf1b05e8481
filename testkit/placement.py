# SPDX-License-Identifier: Apache-2.0
"""What tests of placement ask a driver, and wait for."""

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
    moves = [row for row in query.table("migrations") if row["batch"] > after]
    return [row for row in moves if row["is_recovery"] or row["bins_from_checkpoint"]]


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
