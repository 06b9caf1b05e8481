# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint in an S3 server costs, request by request, and what the server refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote
from uuid import UUID

import pytest

from testkit.driver_process import DriverProcess
from testkit.object_store import ObjectStore, Request
from testkit.remote import MakeRemoteQuery

WORKERS = 2
BATCHES = 3


@pytest.fixture
def store(in_s3: ObjectStore) -> ObjectStore:
    return in_s3


@pytest.mark.parametrize("format", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_each_file_takes_one_request_to_write_and_two_to_read(
    store: ObjectStore, driver: DriverProcess, make_remote_query: MakeRemoteQuery, format: int
) -> None:
    root = f"{store.root}/requests-{format}"
    query = make_remote_query(driver, format=format, checkpoint=root)
    query.spread().run(BATCHES)
    store.requests()
    query.run(BATCHES)
    asked = store.requests()
    # No folder is listed, either.
    assert _verbs(r for r in asked if "/state/" in unquote(r.path)) == {"PUT": WORKERS * BATCHES}
    for log in ("offsets", "commits"):
        assert _verbs(r for r in asked if f"/{log}/" in r.path)["PUT"] == BATCHES
    query.stop()
    query.start(driver)
    store.requests()
    query.run()
    of_state = _of_state(store.requests())
    reads = Counter((r.verb, r.path) for r in of_state if r.verb != "PUT")
    files = {path for _, path in reads}
    assert len(files) >= WORKERS, "nothing was recovered"
    assert {verb for verb, _ in reads} == {"HEAD", "GET"}
    newest = max(_version(path) for path in files)
    for (verb, path), times in reads.items():
        # Under format 1 every worker looks at the newest file of the first one, too.
        shared = format == 1 and "/state/0/0/" in path and _version(path) == newest
        assert times <= (WORKERS if shared else 1), f"{verb} {path}"
    query.finish(query.submit("rescale", 3, strategy="all-at-once", mode="direct"))
    query.stop_and_check()


def test_one_session_has_a_checkpoint_here_and_one_in_s3(
    store: ObjectStore, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    here = make_remote_query(driver, "here").run(2)
    there = make_remote_query(driver, "there", checkpoint=f"{store.root}/there").run(2)
    store.requests()
    here.run()
    assert store.requests() == []
    there.run()
    assert not any(".tmp" in request.path for request in store.requests()), "Spark's own way"
    # Spark's own manager leaves checksums beside local files.
    assert any(here.checkpoint.rglob("*.delta"))
    assert not any(here.checkpoint.rglob("*.crc"))
    for query in (here, there):
        query.stop_and_check()


def test_of_two_writers_of_one_record_the_store_refuses_one(
    store: ObjectStore, driver: DriverProcess
) -> None:
    won = driver.call("race", root=f"{store.root}/race", numbers=40)
    assert won == [1] * 40
    answers = [r.status for r in store.requests() if "/race/megaphone/log/" in r.path]
    assert answers.count(412) >= 1, "no two writers met"


def test_of_two_writers_of_the_same_bytes_one_is_told_that_the_file_is_its_own(
    store: ObjectStore, driver: DriverProcess
) -> None:
    assert driver.call("race_for_files", root=f"{store.root}/files", numbers=20) == [1] * 20
    # By this a writer knows its own file if an answer was lost and the client has tried again.
    assert UUID(driver.call("writer_of", path=f"{store.root}/files/0"))


def _of_state(requests: list[Request]) -> list[Request]:
    return [r for r in requests if ".delta" in r.path]


def _verbs(requests: Iterable[Request]) -> Counter[str]:
    return Counter(r.verb for r in requests)


def _version(path: str) -> int:
    return int(Path(path.partition("?")[0]).stem.partition("_")[0])
