# SPDX-License-Identifier: Apache-2.0
"""State files that are damaged, cut, empty or gone: an error that names the file, never a wrong
row.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.driver_process import DriverProcess, Refused
from testkit.remote import MakeRemoteQuery, RemoteQuery


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a wrong byte in a chunk": (lambda data: _flip(data, 12), "expected chunk checksum"),
    "a wrong byte in the footer": (
        lambda data: _flip(data, len(data) - 40),
        "expected footer checksum",
    ),
    "a file cut in half": (lambda data: data[: len(data) // 2], "expected the magic number MPHF"),
    "an empty file": (lambda data: b"", "expected at least 32 bytes, found 0"),
}


@pytest.mark.parametrize("age", ["newest", pytest.param("oldest", marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_damaged_state_file_is_named_and_a_restored_one_read(
    format: int, age: str, shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared, format=format).spread()
    query.run(2)
    query.stop()
    files = _by_age(query, worker=0)
    file = files[-1] if age == "newest" else files[0]
    sound = file.read_bytes()
    for what, (damage, sentence) in DAMAGE.items():
        file.write_bytes(damage(sound))
        message = _failure(query, shared)
        assert file.name in message, what
        assert "is damaged" in message, what
        assert sentence in message, what
    file.unlink()
    message = _failure(query, shared)
    assert file.name in message
    assert "does not exist" in message
    file.write_bytes(sound)
    query.start(shared).run()
    query.stop_and_check()


def test_a_file_that_is_damaged_while_the_query_runs_does_not_stop_it(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    """The executors have its content in memory: nobody reads it, also not for a move between
    them.
    """
    settings = {"spark.megaphone.transfer.patienceBatches": "100"}  # after so many it would be read
    query = make_remote_query(shared, **settings).spread()
    query.run(2)
    file = _by_age(query, worker=0)[-1]
    sound = file.read_bytes()
    file.write_bytes(_flip(sound, 12))
    query.finish(query.move_half(0, 1))
    query.run()
    query.check()
    query.stop()
    message = _failure(query, shared)
    assert file.name in message
    assert "is damaged" in message
    file.write_bytes(sound)
    query.start(shared).run()
    query.stop_and_check()


def test_a_damaged_plan_log_is_named(
    shared: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(shared).spread()
    query.finish(query.move_half(0, 1, mode="direct"))
    query.stop()
    log = query.checkpoint / "megaphone" / "log"
    record = log / "1"
    sound = record.read_bytes()
    for damaged in (_flip(sound, len(sound) // 2), sound[:-3], b""):
        record.write_bytes(damaged)
        message = _failure(query, shared)
        assert str(record) in message
        assert "is damaged" in message
    record.unlink()
    message = _failure(query, shared)
    assert "expected record 1" in message
    record.write_bytes(sound)
    query.start(shared).run()
    query.stop_and_check()


def _by_age(query: RemoteQuery, worker: int) -> list[Path]:
    """The state files of a worker, the oldest first."""
    files = (query.checkpoint / "state" / "0" / str(worker)).glob("*.delta")
    return sorted(files, key=lambda f: int(f.stem.split("_")[0]))


def _failure(query: RemoteQuery, driver: DriverProcess) -> str:
    """Starts the query, which must fail at its first batch; what it says."""
    query.start(driver)
    has_more = _has_more(query)
    with pytest.raises(Refused) as refused:
        query.settle() if has_more else query.run()
    return str(refused.value)


def _has_more(query: RemoteQuery) -> bool:
    """Whether the query has files to process that an earlier failure left."""
    commits = [int(f.name) for f in (query.checkpoint / "commits").iterdir() if f.name.isdigit()]
    return query.input.batches > max(commits) + 1
