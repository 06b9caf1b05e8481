# SPDX-License-Identifier: Apache-2.0
"""What `Relocations` and `Drain` make of the plugin's rows. A scripted plugin answers here; how
workers really go is seen on executors (`integration-tests/situations`).
"""

from typing import Any, cast

import pytest

from spark_megaphone import _tables, errors
from spark_megaphone._door import Application, Door
from spark_megaphone.relocation import Drain, Relocations

Row = dict[str, Any]


class Plugin:
    """Answers each question for a table with the next of some answers, then with the last."""

    def __init__(self, *answers: list[Row]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []
        self.paused = 0

    def ask(self, verb: str, *arguments: object) -> Any:
        """A door's and an application's verb."""
        if verb == "undrain":
            self._answers = [[drain("cancelled")]]
        elif verb not in ("relocations", "drains"):
            self.asked.append((verb, *arguments))
            return None
        answer = self._answers[0]
        if len(self._answers) > 1:
            self._answers.pop(0)
        return answer[0] if verb == "undrain" else answer

    def pause(self, seconds: float) -> None:
        """A door's: here the next look is always due."""
        assert seconds > 0
        self.paused += 1


def relocation(worker: int, status: str, **columns: Any) -> Row:
    row: Row = dict.fromkeys(_tables.RELOCATIONS.names)
    return row | {"id": worker, "worker": worker, "target": "b", "status": status} | columns


def drain(status: str, **columns: Any) -> Row:
    row: Row = dict.fromkeys(_tables.DRAINS.names)
    return row | {"executor": "a", "status": status, "workers": 0, "release": False} | columns


def relocations(*answers: list[Row]) -> tuple[Relocations, Plugin]:
    plugin = Plugin(*answers)
    return Relocations(cast(Door, plugin), answers[0]), plugin


def draining(*answers: Row) -> Drain:
    plugin = Plugin(*([row] for row in answers))
    return Drain(Application(plugin.ask, look_s=0.001), answers[0])


def test_workers_are_waited_for_until_all_have_arrived() -> None:
    making = [relocation(0, "making", bytes=100, bytes_ready=50), relocation(1, "making")]
    half = [relocation(0, "done"), relocation(1, "making")]
    both, plugin = relocations(making, half, [relocation(0, "done"), relocation(1, "done")])
    assert both.ids == (0, 1)
    assert both.wait(timeout=60) is both
    assert plugin.paused == 2
    assert (both.status, both.progress) == ("done", 1.0)
    assert both.wait(timeout=0) is both, "all has been seen to be over"


def test_progress_is_of_workers_and_bytes_ready_of_bytes() -> None:
    rows = [
        relocation(0, "done", bytes=300, bytes_ready=300),
        relocation(1, "making", bytes=100, bytes_ready=20),
    ]
    both, _ = relocations(rows)
    assert (both.status, both.progress, both.bytes_ready) == ("running", 0.5, 0.8)
    assert both.table().schema == _tables.RELOCATIONS
    unknown, _ = relocations([relocation(0, "making")])
    assert unknown.bytes_ready is None
    nothing, _ = relocations([relocation(0, "making", bytes=0)])
    assert nothing.bytes_ready == 1.0


def test_a_time_that_is_up_says_who_is_on_its_way() -> None:
    both, _ = relocations([relocation(0, "done"), relocation(1, "making")])
    with pytest.raises(errors.RelocationTimeout) as caught:
        both.wait(timeout=0)
    assert str(caught.value) == (
        "1 of 2 workers were not on their executors after 0 s: worker 1 to executor b making. "
        "They go on."
    )
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [("failed", "Executor b is gone.", "is gone"), ("cancelled", None, "It was cancelled.")],
)
def test_a_worker_that_does_not_arrive_says_why(status: str, reason: str | None, told: str) -> None:
    both, _ = relocations([relocation(0, "done"), relocation(1, status, reason=reason)])
    assert both.status == status
    with pytest.raises(
        errors.RelocationFailed, match="Worker 1 did not get to executor b"
    ) as caught:
        both.wait()
    assert told in str(caught.value)


def test_those_that_have_not_ended_are_cancelled() -> None:
    both, plugin = relocations([relocation(0, "done"), relocation(1, "making")])
    both.cancel()
    assert plugin.asked == [("cancelRelocations", [1])]
    ended, plugin = relocations([relocation(0, "done")])
    ended.cancel()
    assert plugin.asked == []


def test_a_relocation_that_the_run_does_not_have_is_unknown() -> None:
    gone, _ = relocations([relocation(0, "making")], [])
    assert gone.status == "running"
    with pytest.raises(errors.UnknownRelocation, match="no relocation 0"):
        gone.progress  # noqa: B018


def test_an_executor_is_waited_for_until_it_is_empty() -> None:
    one = draining(drain("draining", workers=2), drain("draining", workers=1), drain("drained"))
    assert one.wait(timeout=60) is one
    assert (one.executor, one.status, one.workers, one.reason) == ("a", "drained", 0, None)


def test_an_executor_that_is_to_be_released_is_waited_for_until_it_has_ended() -> None:
    states = [drain(s, release=True) for s in ("drained", "cordoned", "released")]
    assert draining(*states).wait(timeout=60).status == "released"


@pytest.mark.parametrize(("release", "what"), [(False, "empty"), (True, "ended")])
def test_a_drain_whose_time_is_up_goes_on(release: bool, what: str) -> None:
    one = draining(drain("draining", release=release, reason="2 workers are still there."))
    with pytest.raises(errors.DrainTimeout) as caught:
        one.wait(timeout=0)
    assert str(caught.value) == (
        f"Executor a was not {what} after 0 s. 2 workers are still there. The drain goes on."
    )
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize(
    ("status", "what"), [("lost", "was lost"), ("cancelled", "is to keep its workers")]
)
def test_a_drain_that_ends_otherwise_says_so(status: str, what: str) -> None:
    with pytest.raises(errors.DrainCancelled, match=f"Executor a {what}"):
        draining(drain("draining"), drain(status)).wait()


def test_a_drain_that_is_cancelled_is_seen_to_be() -> None:
    one = draining(drain("draining"))
    one.cancel()
    assert one.status == "cancelled"
    assert repr(one) == "Drain(executor a, cancelled)"


def test_a_drain_that_is_not_listed_is_unknown() -> None:
    plugin = Plugin([])
    gone = Drain(Application(plugin.ask, look_s=1), drain("draining"))
    with pytest.raises(errors.UnknownDrain, match="Executor a is not to be emptied"):
        gone.wait()
    assert repr(gone) == "Drain(executor a, draining)", "what was seen last"
