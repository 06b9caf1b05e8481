# SPDX-License-Identifier: Apache-2.0
"""What tests of placement ask a driver: where workers are, and which executors are to go."""

from collections import Counter
from typing import Any

from testkit.driver_process import DriverProcess
from testkit.remote import RemoteQuery


def drain_of(driver: DriverProcess, executor: str) -> dict[str, Any] | None:
    """The executor's row of the table of drains; None if there is none."""
    return next((row for row in driver.call("drains") if row["executor"] == executor), None)


def workers_by_executor(query: RemoteQuery) -> Counter[str]:
    """How many workers ran on each executor last."""
    return Counter(row["executor"] for row in query.table("workers"))


def recovered_later(query: RemoteQuery) -> list[dict[str, Any]]:
    """Whole workers that were read from the checkpoint after the first batch."""
    return [row for row in query.table("migrations") if row["is_recovery"] and row["batch"] > 0]
