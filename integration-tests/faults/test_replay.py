# SPDX-License-Identifier: Apache-2.0
"""A driver that was held up while it started replays a batch of another as the other's batch."""

import pytest

from testkit.driver_process import MakeDriver
from testkit.faults import Faults
from testkit.remote import MakeRemoteQuery

STARTED = "query-started=pause"
# The plugin's listener comes first, so that all it could learn of the query's start is older than
# what happens while the driver stands still.
LISTENERS = (
    "io.megaphone.spark.driver.QueryListener",
    "io.megaphone.spark.faults.QueryStartFault",
)


@pytest.mark.slow
@pytest.mark.parametrize("sealing", ["driver-sealing", "driver-sealing=pause"])
def test_a_batch_that_another_driver_logged_during_the_start_takes_no_step(
    sealing: str, own_faults: Faults, make_driver: MakeDriver, make_remote_query: MakeRemoteQuery
) -> None:
    """Driver 2 starts while batch n - 1 is the newest, and stands still before its sources are
    made. Driver 1 logs the offsets of n and is about to seal a step at n, when it dies or stands
    still. Driver 2 goes on and finds n in the offset log. A step is due, but n is not its own.
    """
    first = make_driver(**own_faults.settings)
    query = make_remote_query(first).spread()
    plan = query.submit("rescale", 3, strategy="all-at-once", mode="direct")
    before = query.write().settle()
    assert query.plan(plan)["status"] == "preparing", "the step is not due at the next batch"
    logged = query.plan_log()

    second = make_driver(
        **own_faults.settings
        | {
            "spark.megaphonetest.faults": STARTED,
            "spark.sql.streaming.streamingQueryListeners": ",".join(LISTENERS),
        }
    )
    second.wait_for_executors()
    second.send(
        "start",
        name=query.name,
        kind=query.kind,
        source=str(query.input.folder),
        checkpoint=str(query.checkpoint),
        sink=str(query.sink),
        settings=query.settings,
    )
    own_faults.wait(STARTED)
    second.wait_until_paused()

    own_faults.arm(sealing)
    query.write()
    first.send("settle", name=query.name)
    own_faults.wait(sealing)
    if sealing == "driver-sealing":
        first.kill()
    else:
        first.wait_until_paused()
    batch = max(query.logged("offsets"))
    assert batch == before + 1, "the first driver has not logged the batch"
    assert query.plan_log() == logged, "the first driver has sealed the step"

    second.resume()
    second.answer()
    query.driver = second
    assert query.settle() == batch, "the batch was not replayed"
    row = query.plan(plan)
    assert row["batches"] == [], "the replay of another's batch has taken a step"
    assert row["status"] in ("submitted", "preparing"), "the plan is not open"
    replayed = query.plan_log()
    assert replayed[:-1] == logged, "there is more in the plan log than the start of a run"

    if sealing != "driver-sealing":
        first.resume()
        with pytest.raises(Exception, match="plan log"):
            first.answer()
        assert query.plan_log() == replayed, "it has written to a plan log that is another's now"
    row = query.finish(plan)
    assert min(row["batches"]) > batch
    query.run(2).stop_and_check()
