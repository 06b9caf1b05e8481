# SPDX-License-Identifier: Apache-2.0
"""The tab of Spark's UI: of a cluster under plans, in the history server, in a browser."""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from matplotlib.image import imread

import spark_megaphone
from testkit import pages, server
from testkit.driver_process import DriverProcess
from testkit.folders import fresh
from testkit.on_demand import NO_REST, left_incomplete
from testkit.pages import ask, wait_for
from testkit.placement import REPLICAS, wait_for_standbys, workers_by_executor
from testkit.remote import MakeRemoteQuery, RemoteQuery
from testkit.scrape import of_family, samples_at
from testkit.waiting import until

_JAR = spark_megaphone.options()["spark.jars"]
needs_browser = pytest.mark.skipif(
    pages.browser() is None, reason=f"none of {', '.join(pages.BROWSERS)} is installed"
)


class Live(NamedTuple):
    """A running application, and what its queries have done.

    Attributes:
        done: The plan that has moved bins.
        open: A plan that goes on.
    """

    root: str
    driver: DriverProcess
    query: RemoteQuery
    done: str
    open: str
    events: Path

    @property
    def tab(self) -> str:
        return f"{self.root}/megaphone/"


@pytest.fixture(scope="module")
def live(work: Path) -> Iterator[Live]:
    """A query on two executors that has been rescaled, and is being rescaled again."""
    folder = fresh(work)
    events = folder / "events"
    events.mkdir(parents=True)
    (port,) = server.free_ports(1)
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.megaphone.ui.stateIntervalMs": "1000",
    }
    driver = DriverProcess(folder / "driver", settings)
    of_query: dict[str, Any] = {REPLICAS: "1"}
    query = RemoteQuery(folder / "orders", **of_query).start(driver).spread()
    done = query.submit("rescale", 5, strategy="batched(100)")
    query.finish(done, within=60)
    query.run(2)
    going = query.submit("rescale", 3, strategy="fluid")
    query.run_until(lambda: query.plan(going)["moves_done"] > 0, "a step is taken")
    yield Live(f"http://{server.HOST}:{port}", driver, query, done, going, events)
    driver.close()


def test_the_page_shows_what_the_tables_show(live: Live) -> None:
    page = wait_for(live.tab, live.open)
    workers = {row["worker"]: row for row in live.query.table("workers")}
    for executor in {row["executor"] for row in workers.values()}:
        assert f"executor {executor}<" in page

    def told() -> dict[str, Any]:
        (query,) = json.loads(ask(f"{live.tab}json/").body)
        return dict(query)

    # A step is shown before all of its workers have reported: for a moment, bins are counted twice.
    keys = sum(row["keys"] for row in workers.values())
    until(lambda: told()["keys"] == keys, f"the tab shows {keys} keys")
    shown = told()
    assert shown["workers"] == len(workers)
    assert shown["executors"] == sorted({row["executor"] for row in workers.values()})
    plans = {plan["id"]: plan["status"] for plan in shown["plans"]}
    assert plans == {live.done: "done", live.open: "running"}
    assert "State migration" in ask(f"{live.root}/executors/").body


def test_links_and_buttons_work_behind_a_proxy(live: Live) -> None:
    direct = ask(live.tab).body
    behind = ask(live.tab, headers={"X-Forwarded-Context": "/spark/one"}).body
    for link in ("/megaphone/query/?run=", "/executors/", "/megaphone/cancel/?run="):
        assert f'="{link}' in direct
        assert f'="/spark/one{link}' in behind


@needs_browser
def test_the_open_page_shows_newer_batches_by_itself(live: Live, work: Path) -> None:
    def newest(page: str) -> int:
        return max(int(n) for n in re.findall(r"<title>batch (\d+):", page))

    seen = list[str]()

    def between(path: str) -> None:
        """The page is asked for: batches run before it is asked for again."""
        if path == "/megaphone/":
            if seen:
                live.query.run(2)
                wait_for(live.tab, f"batch {newest(seen[0]) + 2}:")
            seen.append(ask(live.tab).body)

    with pages.forwarding(live.root, between) as address:
        shown = pages.content_after(f"{address}/megaphone/", fresh(work), 7_000)
    assert len(seen) == 2
    assert newest(shown) >= newest(seen[0]) + 2
    assert 'class="megaphone"' in shown, "the page has not faded"


@needs_browser
def test_the_page_fades_when_the_application_is_gone(live: Live, work: Path) -> None:
    asked = list[str]()

    def between(path: str) -> None:
        asked.append(path)
        if asked.count("/megaphone/") > 1:
            raise ConnectionError

    with pages.forwarding(live.root, between) as address:
        shown = pages.content_after(f"{address}/megaphone/", fresh(work), 7_000)
    assert 'class="megaphone stale"' in shown
    assert "No answer from the application since" in shown
    assert live.done in shown, "what is known stays"


@pytest.fixture(scope="module")
def history(live: Live, work: Path) -> Iterator[str]:
    """The application in a history server."""
    with pages.history_server(fresh(work) / "history", live.events, _JAR) as application:
        yield application


def test_the_history_server_shows_the_same(live: Live, history: str) -> None:
    page = wait_for(f"{history}/megaphone/", live.done)
    assert "setTimeout(look" not in page
    assert "<form" not in page

    def plans(tab: str) -> object:
        return json.loads(ask(f"{tab}json/").body)[0]["plans"]

    until(
        lambda: plans(f"{history}/megaphone/") == plans(live.tab),
        "the history server shows the same plans",
    )
    path = history[history.index("/history") :]
    assert f'href="{path}/megaphone/"' in ask(f"{history}/jobs/").body


@pytest.mark.slow
@pytest.mark.parametrize(
    "store", [{}, {"spark_history_store_hybridStore_enabled": "true"}], ids=["disk", "hybrid"]
)
def test_the_history_server_keeps_it_on_disk(live: Live, work: Path, store: dict[str, str]) -> None:
    folder = fresh(work)
    (folder / "kept").mkdir(parents=True)
    settings = {"spark_history_store_path": str(folder / "kept"), **store}
    shown = []
    for again in ("first", "again"):
        with pages.history_server(folder / again, live.events, _JAR, **settings) as application:
            page = wait_for(f"{application}/megaphone/", live.done)
            shown.append(re.sub('nonce="[^"]*"', "", page[page.index('<div id="megaphone"') :]))
    assert shown[0] == shown[1]


def test_a_history_server_without_the_jar_shows_all_else(live: Live, work: Path) -> None:
    with pages.history_server(fresh(work) / "history", live.events, "") as application:
        jobs = wait_for(f"{application}/jobs/", "Completed Jobs")
        assert "State migration" not in jobs
        assert ask(f"{application}/StreamingQuery/").status == 200


@needs_browser
def test_a_browser_draws_it_light_and_dark_and_in_history(
    live: Live, history: str, work: Path
) -> None:
    """`make pictures` keeps the pictures. People look at them; a test only sees that they are."""
    folder = Path(os.environ.get("MEGAPHONE_PICTURES", fresh(work)))
    brightness = {}
    for name, page, flags in (
        ("light", live.tab, ()),
        ("dark", live.tab, pages.DARK),
        ("history", f"{history}/megaphone/", ()),
    ):
        file = folder / f"tab-{name}.png"
        pages.picture(page, file, fresh(work), *flags)
        brightness[name] = float(imread(file)[..., :3].mean())
    assert brightness["dark"] < 0.3 < 0.8 < min(brightness["light"], brightness["history"])


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_token_nothing_is_cancelled(live: Live, method: str) -> None:
    run = json.loads(ask(f"{live.tab}json/").body)[0]["run_id"]
    answer = ask(f"{live.tab}cancel/?run={run}&plan={live.open}&token=0", method)
    assert answer.status == {"GET": 405, "POST": 403}[method]
    assert {row["id"]: row["status"] for row in live.query.table("plans")}[live.open] == "running"


def test_the_button_cancels_the_plan(live: Live) -> None:
    action = re.search(r'action="([^"]+)"', wait_for(live.tab, live.open))
    assert action is not None
    answer = ask(live.root + html.unescape(action[1]), "POST")
    assert answer.status == 302
    assert answer.location is not None
    wait_for(live.root + answer.location.removeprefix(live.root), "cancelled")
    assert "<form" not in ask(live.tab).body


@pytest.mark.slow
def test_the_page_follows_executors_that_come_and_go(live: Live) -> None:
    """It takes an executor from the application."""
    query, driver = live.query, live.driver
    query.call("cancel", id=live.open)
    wait_for_standbys(query)
    victim = query.executor_of(0)
    count = workers_by_executor(query)[victim]
    driver.kill_executor(victim)
    query.run()  # by now Spark has noticed the loss
    workers = "1 worker" if count == 1 else f"{count} workers"
    lost = f"Executor {victim} with {workers}: all went on where their standbys are."
    assert lost in pages.column(wait_for(live.tab, lost), "Lost", "Batch").values()
    metrics = {"executors_lost": 1, "workers_lost": count, "workers_promoted": count}
    until(lambda: {name: total(live, name) for name in metrics} == metrics, f"{metrics} are told")

    query.spread()
    here = {row["executor"] for row in query.table("workers")}
    assert victim not in here

    def page_follows() -> bool:
        query.run()
        (told,) = json.loads(ask(f"{live.tab}json/").body)
        return bool(told["executors"] == sorted(here))

    until(page_follows, "the page has the executors that there are now")
    page = ask(live.tab).body
    assert all(f"executor {executor}<" in page for executor in here)
    assert f"executor {victim}<" not in page

    leaving = query.executor_of(0)
    driver.call("drain", executor=leaving)
    wait_for(live.tab, f"<p>Executor {leaving} is to be emptied; left to go: ")
    driver.call("undrain", executor=leaving)
    until(lambda: f"Executor {leaving} is" not in ask(live.tab).body, "it stays")


def test_the_page_shows_what_a_step_on_demand_has_left_and_brought(
    live: Live, make_remote_query: MakeRemoteQuery
) -> None:
    """The last one of the module: it stops the query of the others."""
    live.query.stop()
    query = make_remote_query(live.driver, "demanded", **NO_REST).spread()
    left_incomplete(query)
    runs = json.loads(ask(f"{live.tab}json/").body)
    (run,) = (row["run_id"] for row in runs if row["name"] == "demanded")
    shown = f"{live.tab}query/?run={run}"

    def numbers(title: str, by: str) -> Counter[int]:
        found = pages.column(ask(shown).body, title, by)
        return Counter({int(row): int(text.replace(",", "")) for row, text in found.items()})

    def shows(title: str, by: str, expected: Counter[int]) -> None:
        assert expected.total() > 0
        until(lambda: +numbers(title, by) == +expected, f"the page shows {title}: {expected}")

    workers = query.table("workers")
    for title, name in (("Bins incomplete", "bins_incomplete"), ("Bytes to come", "bytes_to_come")):
        shows(title, "Worker", Counter({row["worker"]: row[name] for row in workers}))
    brought = Counter[int]()
    for row in query.table("migrations"):
        brought[row["batch"]] += row["sub_bins"]
    shows("Sub-bins brought", "Batch", brought)
    query.stop()


def total(live: Live, name: str) -> int:
    """A count of the application's, as Prometheus reads it."""
    samples = samples_at(f"{live.root}/metrics/megaphone/")
    ((_, value),) = of_family(samples, f"spark_megaphone_{name}_total")
    return int(value)
