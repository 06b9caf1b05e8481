# SPDX-License-Identifier: Apache-2.0
"""The tab behind the proxy of a standalone cluster's master."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from testkit.cluster import standalone_cluster
from testkit.driver_process import MakeDriver
from testkit.folders import fresh
from testkit.pages import ask, wait_for
from testkit.remote import MakeRemoteQuery

_PROXY = {"spark.ui.reverseProxy": "true"}


@pytest.mark.slow
def test_the_page_and_its_button_work_behind_the_masters_proxy(
    make_driver: MakeDriver,
    make_remote_query: MakeRemoteQuery,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with standalone_cluster(fresh(work) / "cluster", workers=1, settings=_PROXY) as cluster:
        driver = make_driver(
            **cluster.conf(), **_PROXY, **{"spark.ui.enabled": "true", "spark.ui.port": "0"}
        )
        monkeypatch.setattr(driver, "wait_for_executors", lambda: None)  # not among its children
        query = make_remote_query(driver).run(2)
        plan = query.submit("rescale", 5, strategy="fluid")
        query.run(2)
        (application,) = json.loads(ask(f"{cluster.ui}/json/").body)["activeapps"]
        tab = f"/proxy/{application['id']}/megaphone/"
        page = wait_for(f"{cluster.ui}{tab}", plan)
        assert f'href="{tab}query/?run=' in page
        action = re.search(r'action="([^"]+)"', page)
        assert action is not None
        answer = ask(cluster.ui + html.unescape(action[1]), "POST")
        assert answer.status == 302
        assert answer.location is not None
        shown = wait_for(answer.location, "cancelled")
        assert "<form" not in shown
        query.stop()
