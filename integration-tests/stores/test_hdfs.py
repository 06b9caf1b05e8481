# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint in HDFS costs, operation by operation, and what the name node refuses."""

from __future__ import annotations

from collections import Counter

import pytest

from testkit.driver_process import DriverProcess
from testkit.hdfs import Hdfs
from testkit.in_process import STOCK
from testkit.remote import BINNED, PROVIDER, MakeRemoteQuery

BATCHES = 10


@pytest.fixture
def store(in_hdfs: Hdfs) -> Hdfs:
    return in_hdfs


def test_a_batch_asks_the_name_node_no_more_than_with_sparks_own_provider(
    store: Hdfs, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    asked: dict[str, Counter[str]] = {}
    for name, provider in (("stock", STOCK), ("binned", BINNED)):
        query = make_remote_query(
            driver, name, format=1, checkpoint=f"{store.root}/{name}", **{PROVIDER: provider}
        )
        query.run(3)
        store.operations()
        query.run(BATCHES)
        # An executor goes on with the maintenance of a query that has been stopped.
        asked[name] = Counter(o.verb for o in store.operations() if f"/{name}/" in o.path)
        query.stop()
        query.check()
    assert asked["stock"]["create"] >= 4 * BATCHES, "two states, offsets and commit"
    assert asked["binned"].total() <= asked["stock"].total(), asked


def test_a_recovery_opens_files_without_asking_for_their_lengths(
    store: Hdfs, driver: DriverProcess, make_remote_query: MakeRemoteQuery
) -> None:
    query = make_remote_query(driver, format=1, checkpoint=f"{store.root}/opened")
    query.run(3)
    query.stop()
    store.operations()
    query.start(driver).run()
    of_state = [o for o in store.operations() if o.path.endswith(".delta")]
    assert {o.verb for o in of_state} == {"open"}, of_state
    query.stop()
    query.check()


def test_of_two_writers_of_one_record_the_name_node_refuses_one(
    store: Hdfs, driver: DriverProcess
) -> None:
    store.operations()
    assert driver.call("race", root=f"{store.root}/race", numbers=40) == [1] * 40
    asked = Counter(o.verb for o in store.operations() if "/race/" in o.path)
    assert asked["create"] == 80, "both have written, under names of their own"
