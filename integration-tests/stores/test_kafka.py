# SPDX-License-Identifier: Apache-2.0
"""From topic to topic of a Kafka broker: no total is wrong after any batch, whoever dies in a plan.

Producer and consumer are not Spark's. Deaths are in the middle of a plan: the driver stands still
where the first step is done, and only then the point is armed at which somebody dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import DRIVER_POINTS, EXECUTOR_POINTS, Faults
from testkit.folders import fresh
from testkit.kafka import Broker, broker
from testkit.kafka_clients import producing
from testkit.kafka_query import KafkaQuery
from testkit.placement import REPLICAS

slow = pytest.mark.slow
STEP_DONE = "driver-settled=pause"
POINTS = (*(point for point in EXECUTOR_POINTS if point.startswith("step")), *DRIVER_POINTS)


@pytest.fixture(scope="module")
def kafka(work: Path) -> Iterator[Broker]:
    with broker(fresh(work) / "kafka") as server:
        yield server


@pytest.fixture
def query(kafka: Broker, work: Path, format: int) -> Iterator[KafkaQuery]:
    folder = fresh(work)
    with producing(kafka.address, kafka.create(folder.name, 2)) as producer:
        yield KafkaQuery(folder / "q", kafka, producer, format)


@pytest.fixture
def new_driver(
    kafka: Broker, own_faults: Faults, make_driver: MakeDriver
) -> Callable[[], DriverProcess]:
    return lambda: make_driver(**own_faults.settings, **kafka.settings)


@pytest.mark.parametrize("format", [pytest.param(1, marks=slow), 2])
@pytest.mark.parametrize(
    "mode",
    ["prepared", *(pytest.param(m, marks=slow) for m in ("direct", "on-demand", "replicated"))],
)
def test_an_executor_and_then_the_driver_die_in_a_plan(
    mode: str, query: KafkaQuery, own_faults: Faults, new_driver: Callable[[], DriverProcess]
) -> None:
    if mode == "replicated":
        query.settings[REPLICAS] = "1"
    query.start(new_driver()).spread()
    plan = _die_in_plan(query, 4, mode, "step-committed", own_faults)
    own_faults.arm("driver-sealed")
    _wait_for_death(query, "driver-sealed", own_faults)
    assert query.start(new_driver()).finish(plan)["steps"] > 2
    query.settle()
    query.stop_and_check()


@slow
@pytest.mark.parametrize("format", [2])
@pytest.mark.parametrize("mode", ["prepared", "direct"])
def test_somebody_dies_at_each_point_of_a_step(
    mode: str, query: KafkaQuery, own_faults: Faults, new_driver: Callable[[], DriverProcess]
) -> None:
    """At last a new driver goes on with what another one has stopped in good order."""
    query.start(new_driver())
    for point, workers in zip(POINTS, cycle((4, 2)), strict=False):
        query.spread()
        plan = _die_in_plan(query, workers, mode, point, own_faults)
        if point in DRIVER_POINTS:
            query.start(new_driver())
        assert query.finish(plan)["steps"] > 2
    query.stop()
    query.start(new_driver()).run()
    query.settle()
    query.stop_and_check()


def _die_in_plan(query: KafkaQuery, workers: int, mode: str, point: str, faults: Faults) -> str:
    """A plan in whose second step somebody dies at a point: an executor, or the driver, whose
    processes have all ended then. Returns the plan's id.
    """
    assert query.driver is not None
    query.run(2)  # the last step of the plan before is settled, or the driver would stand still
    faults.arm(STEP_DONE)
    plan = query.submit("rescale", workers, strategy="batched(120)", mode=mode)
    faults.wait(STEP_DONE)
    query.driver.wait_until_paused()
    faults.arm(point)
    query.driver.resume()
    _wait_for_death(query, point, faults)
    return plan


def _wait_for_death(query: KafkaQuery, point: str, faults: Faults) -> None:
    faults.wait(point)
    if point in DRIVER_POINTS:
        assert query.driver is not None
        query.driver.kill()
