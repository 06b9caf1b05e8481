# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that is copied while bins move, part by part: docs/operations.md, "Back up a
checkpoint".
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from testkit.answers import check_rows, rows_of, state_of

if TYPE_CHECKING:
    from testkit.in_process import InProcessQuery

# A batch runs after each group of parts.
SAFE = [["commits"], ["offsets", "sources", "metadata", "state"], ["megaphone"]]
PLAN_LOG_FIRST = [["megaphone"], ["commits"], ["offsets", "sources", "metadata", "state"]]


def copied(counting: InProcessQuery, folder: Path, groups: list[list[str]]) -> Path:
    """Copies the parts of a checkpoint in their order, while batches take steps."""
    folder.mkdir()
    for parts in groups:
        for part in parts:
            source = counting.checkpoint / part
            if source.is_dir():
                shutil.copytree(source, folder / part)
            else:
                shutil.copy(source, folder / part)
        counting.run()
    newest = max(int(file.name) for file in (folder / "commits").glob("[0-9]*"))
    for file in (folder / "offsets").glob("[0-9]*"):
        if int(file.name) > newest:
            file.unlink()
    return folder


def steps_done(counting: InProcessQuery) -> int:
    (plan,) = counting.megaphone.plans().to_pylist()
    return int(plan["steps_done"])


@pytest.mark.parametrize("parts", [SAFE, PLAN_LOG_FIRST], ids=["safe", "plan-log-first"])
def test_a_copy_of_a_running_query_goes_on_if_the_plan_log_is_copied_last(
    spark: SparkSession, counting: InProcessQuery, tmp_path: Path, parts: list[list[str]]
) -> None:
    counting.megaphone.rescale(4, strategy="fluid")
    counting.run_until(lambda: steps_done(counting) > 2, "some steps are taken")
    before = steps_done(counting)
    counting.checkpoint = copied(counting, tmp_path / "copy", parts)
    assert steps_done(counting) >= before + len(parts)
    counting.stop()

    counting.start()
    if parts == SAFE:
        counting.run(2)
        assert steps_done(counting) > before
        state = state_of(spark, counting.checkpoint).select("key.k", "value.count")
        check_rows(rows_of(state), counting.answer())
    else:
        with pytest.raises(StreamingQueryException, match="The plan log does not fit the state"):
            counting.run()
