# SPDX-License-Identifier: Apache-2.0
"""The tour is a notebook that runs from top to bottom, and shows what its text says.

It is stored without outputs: these have run ids, times and a picture, so each run would change the
file, and nobody could review the change. What the cells show is checked here instead.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit.jvm import SHORT_LIVED

TOUR = Path(__file__).resolve().parents[2] / "docs" / "tour.ipynb"
KERNEL = "of-the-tests"
BRACKETS = str.maketrans("()", "[]")  # from Python's tuples to JSON's lists
CELL_S = 240.0  # a cell that takes longer hangs

Outputs = dict[str, str]


def ran(notebook: Mapping[str, Any], folder: Path, cell_s: float = CELL_S) -> dict[str, Outputs]:
    """Runs a notebook in the Python that runs now, without a kernel that is installed anywhere.

    Args:
        notebook: As it is stored.
        folder: An empty one: the kernel's working directory, and where all of its files are.
        cell_s: How long each cell may take.

    Returns:
        What the last line of each cell showed, by MIME type, and what else it drew or printed, as
        `beside`; cells by id.

    Raises:
        CellExecutionError: A cell failed.
        CellTimeoutError: A cell was not done in time. The kernel has been killed.
    """
    import nbformat
    from nbclient import NotebookClient

    spec = folder / "kernels" / KERNEL / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    environment = {"IPYTHONDIR": str(folder / "ipython"), "JDK_JAVA_OPTIONS": SHORT_LIVED}
    told = {"argv": command, "display_name": KERNEL, "language": "python", "env": environment}
    spec.write_text(json.dumps(told))
    client = NotebookClient(
        nbformat.reads(json.dumps(notebook), as_version=4),
        kernel_name=KERNEL,
        timeout=cell_s,
        startup_timeout=120,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        done = client.execute()
    shown: dict[str, Outputs] = {}
    for cell in done.cells:
        of_cell = shown.setdefault(cell.id, {"beside": ""})
        for output in cell.get("outputs", []):
            if output.output_type == "execute_result":
                of_cell |= output.data
            else:
                of_cell["beside"] += output.get("text") or output.data["text/plain"]
    return shown


def of_one_cell(source: str) -> dict[str, Any]:
    """A notebook with one cell, `only`."""
    cell = {"cell_type": "code", "id": "only", "source": source, "outputs": [], "metadata": {}}
    return {
        "cells": [cell | {"execution_count": None}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def tour() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(TOUR.read_text("utf-8"))
    return read


@pytest.mark.slow
def test_the_tour_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    shown = ran(tour(), tmp_path)
    handle = shown["handle"]["text/html"]
    assert handle.startswith("<table><caption>query counts</caption>")
    assert handle.count("<td>512</td>") == 2
    assert "<td>submitted</td>" in shown["plan"]["text/html"]
    assert "<td>512 of 512</td>" in shown["wait"]["text/html"]
    assert "of 512 moves" in shown["wait"]["beside"], "a bar"
    batches = [batch for batch, _ in json.loads(shown["steps"]["text/plain"].translate(BRACKETS))]
    assert batches == sorted(set(batches))
    assert len(batches) == 4
    assert shown["workers"]["text/html"].count("<td>256</td>") == 4
    assert shown["migrations"]["text/html"].count("<td>64</td>") == 16  # bins_in, bins_relabelled
    assert shown["picture"]["image/png"].startswith("iVBORw0KGgo")


def test_the_tour_is_stored_without_outputs() -> None:
    cells = tour()["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(codes) > 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    assert all(cell["metadata"] == {} for cell in cells)
    assert tour()["metadata"].keys() == {"kernelspec", "language_info"}


def test_the_tour_stops_what_it_starts() -> None:
    assert "".join(tour()["cells"][-1]["source"]) == "query.stop()\nspark.stop()"


def test_a_notebook_runs_in_the_python_of_the_tests(tmp_path: Path) -> None:
    shown = ran(of_one_cell("import sys\nsys.executable"), tmp_path)
    assert shown["only"]["text/plain"] == repr(sys.executable)


def test_a_cell_that_hangs_fails_the_notebook_and_ends_its_kernel(tmp_path: Path) -> None:
    from nbclient.exceptions import CellTimeoutError

    hangs = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\n"
    with pytest.raises(CellTimeoutError):
        ran(of_one_cell(hangs + "time.sleep(1000)"), tmp_path, cell_s=5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_cell_that_fails_fails_the_notebook(tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        ran(of_one_cell("1 / 0"), tmp_path)
