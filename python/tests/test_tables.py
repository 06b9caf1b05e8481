# SPDX-License-Identifier: Apache-2.0
"""What a handle shows: tables of fixed schemas, a line in the shell, a table in a notebook."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import SparkContext

from spark_megaphone import Megaphone, _tables, errors
from testkit.back_ends import BOTH_IN_THE_LONG_RUN

if TYPE_CHECKING:
    from testkit.in_process import InProcessQuery, MakeQuery

BINS = 64
SIZES = ("keys", "bytes")

SCHEMAS = {
    "bins": _tables.BINS,
    "workers": _tables.WORKERS,
    "plans": _tables.PLANS,
    "migrations": _tables.MIGRATIONS,
    "queries": _tables.QUERIES,
    "relocations": _tables.RELOCATIONS,
    "executors": _tables.EXECUTORS,
    "drains": _tables.DRAINS,
}
BEFORE = {
    **{"bins": BINS, "workers": 2, "plans": 0, "migrations": 0, "relocations": 0},
    **{"queries": 1, "executors": 1, "drains": 0},
}
AFTER = BEFORE | {"plans": 1, "migrations": 1}


def test_schemas_are_the_same_with_rows_and_without(counting: InProcessQuery) -> None:
    def tables() -> dict[str, pa.Table]:
        return {name: getattr(counting.megaphone, name)() for name in SCHEMAS}

    before = tables()
    assert {name: len(table) for name, table in before.items()} == BEFORE
    assert {name: table.schema for name, table in before.items()} == SCHEMAS
    counting.finish(counting.megaphone.move({0: 1}))
    counting.run()
    after = tables()
    assert {name: len(table) for name, table in after.items()} == AFTER
    assert {name: table.schema for name, table in after.items()} == SCHEMAS
    for table in after.values():
        table.validate(full=True)


def test_the_columns_are_these() -> None:
    assert {name: schema.names for name, schema in SCHEMAS.items()} == {
        "bins": [
            *("operator", "bin", "worker", "executor"),
            *("keys", "bytes", "bytes_written", "accesses"),
        ],
        "workers": [
            *("operator", "worker", "executor", "bins", "keys", "bytes", "last_batch"),
            *("standbys", "busy_ms", "bins_incomplete", "bytes_to_come"),
        ],
        "plans": [
            *("id", "status", "strategy", "mode", "operators"),
            *("steps", "steps_done", "moves", "moves_done", "batches_left", "batches"),
            *("planned_batch", "reason"),
        ],
        "migrations": [
            *(
                "batch",
                "operator",
                "store",
                "worker",
                "executor",
                "bins_in",
                "bins_relabelled",
                "bins_from_peer",
            ),
            *(
                "bins_from_checkpoint",
                "bytes_from_peer",
                "bytes_from_checkpoint",
                "wait_ms",
                "is_recovery",
                "sub_bins",
                "questions",
                "bins_incomplete",
                "bytes_to_come",
            ),
        ],
        "queries": [
            *("query_id", "run_id", "name", "operators"),
            *("workers", "bins", "keys", "bytes", "last_batch", "open_plan"),
        ],
        "relocations": [
            *("id", "operator", "worker", "source", "target"),
            *("why", "status", "bytes", "bytes_ready", "batch", "reason"),
        ],
        "drains": [
            "executor",
            "cause",
            "status",
            "workers",
            "seconds",
            "reason",
            "release",
        ],
        "executors": [
            *("executor", "host", "state", "cores", "placed", "live_bytes", "busy_ms"),
            *("workers", "standbys", "replicas", "blocks", "bytes", "bytes_on_disk", "budget"),
        ],
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_columns_that_a_docstring_names_exist(name: str) -> None:
    told = inspect.getdoc(getattr(Megaphone, name)) or ""
    named = set(re.findall(r"`([a-z_]+)`", told.partition("Raises:")[0]))
    columns = set(SCHEMAS[name].names)
    assert named
    assert named == columns if name not in ("plans", "migrations") else named < columns


@BOTH_IN_THE_LONG_RUN
def test_the_tables_tell_of_a_move(counting: InProcessQuery) -> None:
    megaphone = counting.megaphone
    plan = megaphone.move({0: 1, 2: 1}, strategy="fluid", mode="direct")
    counting.finish(plan)
    counting.run()
    (row,) = megaphone.plans().to_pylist()
    batches = [step.batch for step in plan.steps]
    assert row == {
        "id": plan.id,
        "status": "done",
        "strategy": "fluid",
        "mode": "direct",
        "operators": [0],
        "steps": 2,
        "steps_done": 2,
        "moves": 2,
        "moves_done": 2,
        "batches_left": 0,
        "batches": batches,
        "planned_batch": counting.input.batches - 1,
        "reason": None,
    }
    came = megaphone.migrations().to_pylist()
    assert [(row["batch"], row["worker"], row["executor"], row["bins_in"]) for row in came] == [
        (batch, 1, "driver", 1) for batch in batches
    ]
    workers = megaphone.workers().to_pylist()
    assert [(row["worker"], row["executor"], row["bins"]) for row in workers] == [
        (0, "driver", 30),
        (1, "driver", 34),
    ]
    assert {row["last_batch"] for row in workers} == {counting.input.batches - 1}


def test_rows_have_the_columns_of_their_tables(counting: InProcessQuery) -> None:
    megaphone = counting.megaphone
    plan = megaphone.move({0: 1})
    counting.finish(plan)
    counting.run()
    jvm: Any = counting.spark._jvm
    api = jvm.io.megaphone.spark.faces.api.MegaphoneApi
    run = counting.running.runId
    for text, schema in (
        (api.queries(), _tables.QUERIES),
        (api.workers(run), _tables.WORKERS),
        (api.bins(run), _tables.BINS),
        (api.plans(run), _tables.PLANS),
        (api.steps(run, plan.id), _tables.STEPS),
        (api.migrations(run), _tables.MIGRATIONS),
        (api.executors(), _tables.EXECUTORS),
    ):
        rows = json.loads(text)
        assert rows
        assert all(list(row) == schema.names for row in rows)
        pa.Table.from_pylist(rows, schema=schema).validate(full=True)


def test_the_application_tells_of_all_its_queries_and_executors(
    start: MakeQuery,
) -> None:
    first, second, waiting = start().run(), start().run(2), start()
    plan = second.megaphone.rescale(3)

    def row(counting: InProcessQuery, open_plan: str | None) -> dict[str, Any]:
        return {
            "query_id": counting.running.id,
            "run_id": counting.running.runId,
            "name": None,
            "operators": 1,
            "workers": 2,
            "bins": BINS,
            **{size: pc.sum(counting.megaphone.workers()[size]).as_py() for size in SIZES},
            "last_batch": counting.input.batches - 1,
            "open_plan": open_plan,
        }

    def runs() -> dict[str, dict[str, Any]]:
        return {row["run_id"]: row for row in Megaphone.queries().to_pylist()}

    expected = [row(first, None), row(second, plan.id)]
    assert runs() == {row["run_id"]: row for row in expected}
    assert waiting.running.runId not in runs(), "it has planned no batch yet"
    first.stop()
    assert list(runs()) == [second.running.runId]
    assert Megaphone.executors().column("executor").to_pylist() == ["driver"]


def test_without_a_session_there_is_no_table_of_the_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    for ask in (Megaphone.queries, Megaphone.executors, Megaphone.drains):
        with pytest.raises(errors.QueryStopped, match="No classic Spark session runs"):
            ask()


@BOTH_IN_THE_LONG_RUN
def test_a_table_turns_into_pandas(counting: InProcessQuery) -> None:
    bins = counting.megaphone.bins().to_pandas()
    assert bins.groupby("worker").size().to_dict() == {0: 32, 1: 32}


@BOTH_IN_THE_LONG_RUN
def test_a_handle_prints_itself(counting: InProcessQuery) -> None:
    keys = len(counting.answer())
    run = counting.running.runId
    assert (
        repr(counting.megaphone)
        == f"Megaphone(query {run}: operator 0: {BINS} bins, {keys} keys on 2 workers)"
    )
    html = counting.megaphone._repr_html_()
    assert html.startswith(
        f"<table><caption>query {run}</caption><thead><tr><th>operator</th><th>worker</th>"
    )
    table, drawing = html.split("</table>")
    assert table.count("<tr>") == 3
    assert "<td>driver</td><td>32</td>" in table
    assert len(re.findall("<title>bin ", drawing)) == BINS
    assert "on worker 1</title>" in drawing


@BOTH_IN_THE_LONG_RUN
def test_a_handle_prints_itself_before_the_first_batch_and_after_the_last(
    start: MakeQuery,
) -> None:
    counting = start()
    megaphone = Megaphone(counting.running)
    assert repr(megaphone) == f"Megaphone(query {counting.running.runId}: QUERY_NOT_STARTED)"
    counting.stop()
    assert repr(megaphone) == f"Megaphone(query {counting.running.runId}: QUERY_STOPPED)"
    assert "<td>QUERY_STOPPED</td><td>The query with run id" in megaphone._repr_html_()


def test_what_comes_from_a_user_is_escaped_in_html(
    counting: InProcessQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    megaphone = counting.megaphone
    monkeypatch.setattr(type(megaphone._door), "title", "<b>&")
    assert "<caption>query &lt;b&gt;&amp;</caption>" in megaphone._repr_html_()
