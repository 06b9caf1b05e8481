# SPDX-License-Identifier: Apache-2.0
"""Drivers that die, or stand still, at every point of a step; and users who turn the clock back."""

import pytest

from testkit.driver_process import DriverProcess, MakeDriver
from testkit.faults import DRIVER_POINTS, Faults
from testkit.remote import MakeRemoteQuery

slow = pytest.mark.slow


@slow
@pytest.mark.parametrize(
    ("mode", "format"), [("direct", 1), ("prepared", 2), ("on-demand", 1), ("on-demand", 2)]
)
def test_a_plan_goes_on_after_its_driver_has_died_at_each_point(
    mode: str,
    format: int,
    own_faults: Faults,
    make_driver: MakeDriver,
    make_remote_query: MakeRemoteQuery,
) -> None:
    """Before the seal, the batch replays without the step; after it, with it; what is done stays
    done.
    """
    driver = make_driver(**own_faults.settings)
    query = make_remote_query(driver, format=format).spread()
    # Steps enough for all three deaths.
    plan = query.submit("rescale", 4, strategy="batched(40)", mode=mode)
    for point in DRIVER_POINTS:
        own_faults.arm(point)
        query.write(3)
        driver.send("settle", name=query.name)
        own_faults.wait(point)
        at = max(query.logged("offsets"))
        logged = query.plan_log()
        driver.kill()
        driver = make_driver(**own_faults.settings)
        query.start(driver).settle()
        row = query.plan(plan)
        assert row["status"] in ("submitted", "preparing", "running", "done"), "the plan is lost"
        if point == "driver-sealed":
            assert at in row["batches"], "the batch was replayed without its step"
        if point == "driver-sealing":
            assert at not in row["batches"], (
                "the batch was replayed with a step that it had not been given"
            )
        assert query.plan_log()[: len(logged)] == logged, "a record of the plan log was changed"
    query.finish(plan, within=20)
    assert len({row["worker"] for row in query.table("workers")}) == 4
    query.stop_and_check()


@pytest.mark.parametrize(
    ("moment", "format"),
    [
        pytest.param("driver-sealing", 2, marks=slow),
        pytest.param("driver-sealed", 2, marks=slow),
        pytest.param("driver-sealed", 1, marks=slow),
    ],
)
def test_a_driver_that_wakes_up_after_another_took_over_harms_nothing(
    moment: str,
    format: int,
    own_faults: Faults,
    make_driver: MakeDriver,
    make_remote_query: MakeRemoteQuery,
) -> None:
    sleeper = make_driver(**own_faults.settings)
    query = make_remote_query(sleeper, format=format).spread()
    plan = query.submit("rescale", 3, strategy="batched(200)", mode="direct")
    pause = f"{moment}=pause"
    own_faults.arm(pause)
    query.write(2)
    sleeper.send("settle", name=query.name)
    own_faults.wait(pause)
    sleeper.wait_until_paused()
    query.start(make_driver(**own_faults.settings)).run(2)
    logged = query.plan_log()
    sleeper.resume()
    with pytest.raises(Exception, match=r"plan log|CONCURRENT|oncurrent"):
        sleeper.answer()
    assert not sleeper.call("is_active", name=query.name)
    assert query.plan_log() == logged, "it has written to a plan log that is another's now"
    query.finish(plan)
    query.run(2)
    query.stop_and_check()
    query.start(query.driver).run()  # type: ignore[arg-type]
    query.stop_and_check()


@pytest.mark.parametrize("format", [2, pytest.param(1, marks=slow)])
def test_a_restart_five_batches_back_forgets_the_steps_after(
    format: int, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format).spread()
    query.run()
    kept = query.finish(query.submit("rescale", 3, strategy="all-at-once", mode="direct"))
    query.run()
    back = query.write().settle()
    lost = query.finish(query.submit("rescale", 1, strategy="batched(400)", mode="direct"))
    assert kept["batches"][-1] < back < lost["batches"][0]
    newest = back
    while newest < back + 5:
        newest = query.write().settle()
    query.stop()
    query.forget_after(back)
    # What was taken back is one batch now: the source remembers its files.
    query.start(shared).settle()
    assert query.plan(lost["id"])["batches"] == [back + 1], "a step that is void counts as done"
    query.finish(lost["id"])
    assert len({row["worker"] for row in query.table("workers")}) == 1
    query.finish(query.submit("rescale", 2, strategy="all-at-once", mode="prepared"))
    query.stop_and_check()
