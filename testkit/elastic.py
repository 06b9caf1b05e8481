# SPDX-License-Identifier: Apache-2.0
"""Executors that Spark's dynamic allocation starts and ends, and those that are released."""

from testkit.driver_process import DriverProcess
from testkit.placement import status_of
from testkit.remote import RemoteQuery

# From one executor to three of one core each, and back.
ELASTIC = {
    "spark.master": "local-cluster[3,1,1024]",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "5s",
}


def release(query: RemoteQuery, driver: DriverProcess, executors: list[str], within: int) -> None:
    """Runs batches until executors have been emptied and ended."""
    for executor in executors:
        driver.call("drain", executor=executor, release=True)
    query.run_until(
        lambda: all(is_released(driver, executor) for executor in executors),
        f"the executors {executors} are released",
        within=within,
    )


def is_released(driver: DriverProcess, executor: str) -> bool:
    """Whether an executor was emptied and has ended."""
    return status_of(driver, executor) == "released"
