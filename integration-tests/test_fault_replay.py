# SPDX-License-Identifier: Apache-2.0
"""A driver that was held up while it started replays a batch of another as the other's batch."""

import tempfile
from pathlib import Path

import pytest

from drivers import MakeDriver
from faults import Faults
from queries import MakeQuery, Query

STARTED = "query-started=pause"
# The plugin's listener comes first, so that all it could learn of the query's start is older than
# what happens while the driver stands still.
LISTENERS = (
    "io.megaphone.spark.driver.EndListener",
    "io.megaphone.spark.faults.QueryStartFault",
)


@pytest.mark.parametrize(
    "sealing", ["driver-sealing", pytest.param("driver-sealing=pause", marks=pytest.mark.slow)]
)
def test_a_batch_that_another_driver_logged_during_the_start_takes_no_step(
    sealing: str, work: Path, make_driver: MakeDriver, make_query: MakeQuery
) -> None:
    """Driver 2 starts while batch n - 1 is the newest, and stands still before its sources are
    made. Driver 1 logs the offsets of n and is about to seal a step at n, when it dies or stands
    still. Driver 2 goes on and finds n in the offset log. A step is due, but n is not its own.
    """
    faults = Faults(Path(tempfile.mkdtemp(dir=work)) / "faults")
    first = make_driver(**faults.settings)
    query = make_query(first).spread()
    plan = query.submit("rescale", 3, strategy="all-at-once", mode="direct")
    before = query.feed()
    assert query.plan(plan)["status"] == "preparing", "the step is not due at the next batch"
    logged = _plan_log(query)

    second = make_driver(
        **faults.settings
        | {
            "spark.megaphone.test.faults": STARTED,
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
    faults.wait(STARTED)
    second.wait_until_paused()

    faults.arm(sealing)
    query.input.show(1)
    first.send("settle", name=query.name)
    faults.wait(sealing)
    if sealing == "driver-sealing":
        first.kill()
    else:
        first.wait_until_paused()
    batch = max(_batches(query))
    assert batch == before + 1, "the first driver has not logged the batch"
    assert _plan_log(query) == logged, "the first driver has sealed the step"

    second.resume()
    second.answer()
    query.driver = second
    assert query.feed(0) == batch, "the batch was not replayed"
    row = query.plan(plan)
    assert row["batches"] == [], "the replay of another's batch has taken a step"
    assert row["status"] in ("submitted", "preparing"), "the plan is not open"
    replayed = _plan_log(query)
    assert replayed[:-1] == logged, "there is more in the plan log than the start of a run"

    if sealing != "driver-sealing":
        first.resume()
        with pytest.raises(Exception, match="plan log"):
            first.answer()
        assert _plan_log(query) == replayed, "it has written to a plan log that is another's now"
    row = query.finish(plan)
    assert min(row["batches"]) > batch
    query.feed(2)
    query.check()


def _batches(query: Query) -> list[int]:
    """The batches in the offset log."""
    return [int(f.name) for f in (query.checkpoint / "offsets").iterdir() if f.name.isdigit()]


def _plan_log(query: Query) -> list[bytes]:
    """The records of the plan log, in order."""
    folder = query.checkpoint / "megaphone" / "log"
    files = sorted((f for f in folder.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
    return [f.read_bytes() for f in files]
