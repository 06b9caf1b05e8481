# SPDX-License-Identifier: Apache-2.0
"""SQL from Python: the statements of the pages, queries of other sessions, and clients of a Spark
Connect server, with the package and without it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_megaphone import Megaphone, errors, options
from testkit.back_ends import BOTH
from testkit.connect import ConnectQuery, connect_server
from testkit.shapes import counts

if TYPE_CHECKING:
    from testkit.in_process import InProcessQuery, MakeQuery

ROOT = Path(__file__).resolve().parents[2]
SQL_BLOCK = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/sql.md"])
def test_the_statements_of_a_page_run(start: MakeQuery, page: str) -> None:
    statements = [
        statement
        for block in SQL_BLOCK.findall((ROOT / page).read_text("utf-8"))
        for statement in filter(None, map(str.strip, block.split(";")))
    ]
    assert len(statements) >= 3
    query = start(**{"spark.megaphone.strategy": "all-at-once"}).run()
    for statement in statements:
        rows = query.spark.sql(statement).toArrow()
        if statement.startswith("CALL") and "id" in rows.column_names:
            query.finish(rows["id"][0].as_py())
    query.run().check()


@BOTH
def test_a_query_of_another_session_is_found(counting: InProcessQuery) -> None:
    other = counting.spark.newSession()
    running = counting.running
    for called in (running.id, running.runId):
        found = Megaphone.find(other, called)
        assert repr(found) == repr(counting.megaphone)
    plan = found.rescale(3, strategy="all-at-once")
    counting.finish(plan)
    assert plan.wait(timeout=0, progress=False) is plan
    assert found.bins() == counting.megaphone.bins()
    assert found.plan(plan.id).steps == counting.megaphone.plan(plan.id).steps
    counting.run().check()
    with pytest.raises(errors.UnknownQuery, match="No query is called 'nobody'"):
        Megaphone.find(other, "nobody")
    counting.stop()
    with pytest.raises(errors.QueryStopped, match=f"run id {running.runId} is not running"):
        found.workers()


@BOTH
def test_the_tables_of_the_application_through_a_session(counting: InProcessQuery) -> None:
    (row,) = Megaphone.queries(counting.spark).to_pylist()
    assert row["run_id"] == counting.running.runId
    assert len(Megaphone.executors(counting.spark)) == 1


def test_a_stranger_rescales_with_sql_alone(client: Any, tmp_path: Path) -> None:
    """One client starts a query, another one moves its state, without the package."""
    query = ConnectQuery(client, tmp_path / "query", counts)
    try:
        query.start().run()
        stranger = client.newSession()
        run = query.running.runId
        (plan,) = stranger.sql(
            "CALL megaphone.system.rescale(5, :query, strategy => 'all-at-once')", {"query": run}
        ).collect()
        query.finish(plan["id"])
        workers = stranger.table("megaphone.system.workers").where(f"run_id = '{run}'")
        assert sorted(row["bins"] for row in workers.collect()) == [12, 13, 13, 13, 13]
        query.run().check()
        with pytest.raises(Exception, match="The plan would move nothing") as caught:
            stranger.sql("CALL megaphone.system.rescale(5, :query)", {"query": run}).collect()
        error: Any = caught.value
        assert (error.getCondition(), error.getSqlState()) == ("MEGAPHONE_EMPTY_PLAN", "22023")
    finally:
        query.stop()


def test_the_settings_are_those_of_configure() -> None:
    made = options(bins=64, strategy="fluid")
    assert made["spark.plugins"] == "io.megaphone.MegaphonePlugin"
    assert Path(made["spark.jars"]).is_file()
    assert made["spark.megaphone.bins"] == "64"
    with pytest.raises(errors.InvalidBins):
        options(bins=3)


@pytest.mark.slow
def test_a_server_without_the_plugin(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with connect_server(tmp_path / "server", plugin=False) as server:
        query = ConnectQuery(server.session(), tmp_path / "query", counts)
        query.start()
        with pytest.raises(errors.PluginMissing, match=r"start-connect-server\.sh"):
            _ = query.megaphone
        query.stop()
