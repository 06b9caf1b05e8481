# SPDX-License-Identifier: Apache-2.0
"""Metrics of a query on two executors, as Prometheus reads them: with its parser, and by a server
of its own where one is installed; the board asks for nothing else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_megaphone import Megaphone
from testkit import batch_files
from testkit.folders import fresh
from testkit.input import SCHEMA
from testkit.scrape import (
    Samples,
    expressions,
    get,
    labelled,
    names_in,
    of_family,
    scrape,
    variables,
)
from testkit.server import HOST, free_ports, running
from testkit.session import local_session
from testkit.shapes import counts, totals
from testkit.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testkit.in_process import MakeQuery

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "conf" / "grafana" / "spark-megaphone.json"
PLUGIN = "metrics_spark_megaphone_tests_driver_plugin_io_megaphone_MegaphonePlugin"
NASTY = 'say "no" to C:\\new,\nand {all}='
LABELS = {"query", "run_id", "operator", "worker", "executor"}
SCRAPE_SECONDS = 1
Labels = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def spark(work: Path) -> Iterator[SparkSession]:
    """A session with the live UI, and the metrics that `conf/metrics.properties` adds."""
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.metrics.conf": str(ROOT / "conf" / "metrics.properties"),
        "spark.metrics.namespace": "${spark.app.name}",
    }
    with local_session(fresh(work), on_executors=True, more=settings) as session:
        yield session


def _value(samples: Samples, name: str) -> float:
    ((labels, value),) = of_family(samples, f"spark_megaphone_{name}")
    assert not labels
    return value


def _total(samples: Samples, name: str) -> int:
    return int(_value(samples, name))


def test_the_numbers_are_those_of_the_tables(make_query: MakeQuery, spark: SparkSession) -> None:
    query = make_query(totals).start().run(2)
    run = query.running.runId
    before = labelled(spark)
    plan = query.megaphone.rescale(5, strategy="all-at-once")

    def of_query(samples: Samples, name: str) -> dict[Labels, int]:
        rows = of_family(samples, f"spark_megaphone_{name}")
        mine = ((labels, int(value)) for labels, value in rows if labels.get("run_id") == run)
        return {frozenset(labels.items()): value for labels, value in mine}

    during = labelled(spark)
    named = frozenset({("query", query.running.id), ("run_id", run)})
    assert of_query(during, "plan_moves") == {named: query.plan(plan.id)["moves"]}
    assert of_query(during, "plan_moves_done") == {named: 0}
    query.finish(plan)
    query.run()
    until(lambda: _total(labelled(spark), "plans_done_total") == 1, "the plan is counted")

    after = labelled(spark)
    workers = query.table("workers")
    assert len(workers) == 5
    for name in ("bins", "keys", "bytes"):
        assert of_query(after, f"worker_{name}") == {
            named | {(k, str(row[k])) for k in ("operator", "worker", "executor")}: row[name]
            for row in workers
        }
    assert of_query(after, "plan_moves") == of_query(after, "plan_moves_done") == {named: 0}

    rows = query.table("migrations")
    columns = {
        "bins_moved_total": "bins_in",
        "bins_from_peer_total": "bins_from_peer",
        "bins_from_checkpoint_total": "bins_from_checkpoint",
        "bytes_from_peer_total": "bytes_from_peer",
        "bytes_from_checkpoint_total": "bytes_from_checkpoint",
    }
    for name, column in columns.items():
        counted = _total(after, name) - _total(before, name)
        assert counted == sum(row[column] for row in rows), name
    assert _total(after, "bins_moved_total") > 0
    waits, counted_before = "wait_seconds_count", _total(before, "wait_seconds_count")
    assert _total(after, waits) - counted_before == len(rows)
    waited = [_value(samples, "wait_seconds_sum") for samples in (before, after)]
    assert round(1000 * (waited[1] - waited[0])) == sum(row["wait_ms"] for row in rows)

    executors = Megaphone.executors(spark).to_pylist()
    assert len(executors) == 2
    budgets = of_family(after, "spark_megaphone_executor_budget_bytes")
    assert sorted((labels["executor"], int(value)) for labels, value in budgets) == sorted(
        (row["executor"], row["budget"]) for row in executors
    )
    assert {name for _, labels in after for name, _ in labels} == LABELS

    spark_page = scrape(spark, "/metrics/prometheus/")
    for name, type, value in [
        ("workers_Value", "gauges", 5),
        ("queries_binned_Value", "gauges", 1),
        ("executors_reporting_Value", "gauges", 2),
        ("plans_done_Count", "counters", 1),
        ("bins_moved_Count", "counters", _total(after, "bins_moved_total")),
        ("waitMs_Count", "histograms", _total(after, waits)),
    ]:
        assert spark_page[f"{PLUGIN}_{name}", frozenset({("type", type)})] == value, name


def test_a_name_may_have_any_characters(make_query: MakeQuery, spark: SparkSession) -> None:
    files = make_query(counts).write(1)
    writer = counts(batch_files.stream(files.spark, files.input.folder, SCHEMA)).writeStream
    writer = writer.queryName(NASTY).outputMode("update").format("noop")
    named = writer.option("checkpointLocation", str(files.checkpoint)).start()
    try:
        named.processAllAvailable()
        shown = of_family(labelled(spark), "spark_megaphone_worker_bins")
        assert {labels["query"] for labels, _ in shown} == {NASTY}
    finally:
        named.stop()


def test_the_board_asks_for_what_is_there(make_query: MakeQuery, spark: SparkSession) -> None:
    make_query(totals).start().run()
    scraped = {name for name, _ in labelled(spark)}
    asked = [*expressions(BOARD), *variables(BOARD)]
    assert len(asked) > 20
    for expression in asked:
        names = names_in(expression)
        assert names, expression
        assert names <= scraped, expression
    assert scraped - set().union(*map(names_in, asked)) == set(), "the board shows all"


def test_the_names_in_an_expression_are_seen() -> None:
    ratio = 'sum by (a, b) (rate(x_total{l=~"$q, w"}[1m])) / (avg(y) > 0) or vector(0)'
    assert names_in(ratio) == {"x_total", "y"}
    assert names_in('label_values(z{l="w"}, l)') == {"z"}


@pytest.fixture
def server(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus server that scrapes the session's pages."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no program prometheus is installed; Debian's package has it")
    target = urllib.parse.urlsplit(str(spark.sparkContext.uiWebUrl)).netloc
    jobs = [
        {"job_name": name, "metrics_path": path, "static_configs": [{"targets": [target]}]}
        for name, path in (("megaphone", "/metrics/megaphone/"), ("spark", "/metrics/prometheus/"))
    ]
    interval = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"}
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps({"global": interval, "scrape_configs": jobs}))  # JSON is YAML
    (port,) = free_ports(1)
    address = f"{HOST}:{port}"
    command = [program, f"--config.file={config}", f"--web.listen-address={address}"]
    command.append(f"--storage.tsdb.path={tmp_path / 'data'}")
    with running(command, tmp_path / "server") as prometheus:
        prometheus.wait(lambda: _is_ready(f"http://{address}"), "the server is ready")
        yield f"http://{address}"


def _is_ready(server: str) -> bool:
    try:
        get(f"{server}/-/ready")
    except OSError:  # it does not listen yet, or says that it is busy
        return False
    return True


def _asked(server: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    answer = json.loads(get(f"{server}/api/v1/query?{query}"))
    assert answer["status"] == "success"
    result: list[Any] = answer["data"]["result"]
    return result


@pytest.mark.slow
def test_a_real_server_fills_the_board(
    server: str, make_query: MakeQuery, spark: SparkSession
) -> None:
    query = make_query(totals).start().run(2)
    until(lambda: len(_asked(server, "up == 1")) == 2, "both pages are scraped")
    query.rescale(5)

    def filled(expression: str) -> list[Any]:
        for variable in ("instance", "query"):
            expression = expression.replace(f"${variable}", ".*")
        return _asked(server, expression.replace("$__rate_interval", "1m"))

    for expression in expressions(BOARD):
        until(lambda e=expression: bool(filled(e)), expression)  # type: ignore[misc]
    moved = _total(labelled(spark), "bins_moved_total")
    in_server = f"spark_megaphone_bins_moved_total == {moved}"
    until(lambda: len(_asked(server, in_server)) == 1, "the server has scraped the last move")
    linted = subprocess.run(
        ["promtool", "check", "metrics"],
        input=get(f"{spark.sparkContext.uiWebUrl}/metrics/megaphone/"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr
