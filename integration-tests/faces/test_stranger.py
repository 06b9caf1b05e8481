# SPDX-License-Identifier: Apache-2.0
"""Somebody with a client of Spark Connect, and no package of ours, moves state and sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import testkit
from testkit import pages, server
from testkit.connect import connect_server
from testkit.folders import fresh

_SECONDS = 180
_CLIENT = Path(testkit.__file__).with_name("stranger.py")


@pytest.mark.slow
def test_a_stranger_rescales_a_query_and_sees_it_in_the_tab(work: Path) -> None:
    (port,) = server.free_ports(1)
    settings = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    with connect_server(fresh(work) / "connect", settings=settings) as connect:
        client = subprocess.Popen(
            [sys.executable, str(_CLIENT), connect.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        run, status = client.stdout.readline().split()
        assert status == "done"
        page = f"http://{server.HOST}:{port}/megaphone/query"
        (told,) = json.loads(pages.wait_for(f"{page}/json/?run={run}", '"workers" : 8'))
        assert "from 4 to 8 workers" in pages.ask(f"{page}/?run={run}").body
        assert [plan["status"] for plan in told["plans"]] == ["done"]
        client.communicate("\n", timeout=_SECONDS)
        assert client.returncode == 0
