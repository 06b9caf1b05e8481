# SPDX-License-Identifier: Apache-2.0
"""The picture of a query: what it shows, on both back ends, and how it looks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from py4j.protocol import Py4JNetworkError

import spark_megaphone
from spark_megaphone import Megaphone, _plot, errors
from spark_megaphone._history import History, Shares, Taken
from spark_megaphone._jvm import JvmDoor
from testkit.back_ends import BOTH, BOTH_IN_THE_LONG_RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from testkit.in_process import InProcessQuery, MakeQuery

PNG = b"\x89PNG"


def bars(axes: Axes, colour: str) -> dict[int, float]:
    """The heights of the bars of a colour, by batch."""
    rectangles = [bar for container in axes.containers for bar in container.patches]  # type: ignore[attr-defined]
    return {
        round(bar.get_x() + bar.get_width() / 2): bar.get_height()
        for bar in rectangles
        if to_hex(bar.get_facecolor()) == colour
    }


def bands(axes: Axes) -> dict[str, list[int]]:
    """How many bins the band of each worker has, batch by batch."""
    found = {}
    for band in axes.patches:
        assert isinstance(band, StepPatch)
        tops, _, base = band.get_data()
        found[str(band.get_label())] = [int(bins) for bins in tops - base]
    return found


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


@BOTH
def test_a_picture_tells_of_a_rescale(counting: InProcessQuery) -> None:
    megaphone = counting.megaphone
    plan = megaphone.rescale(3, strategy="batched(7)")
    counting.finish(plan)
    counting.run(2)
    figure = megaphone.plot()
    upper, lower = figure.axes
    steps = {step.batch for step in plan.steps}
    stepped, calm = bars(upper, _plot.ORANGE), bars(upper, _plot.CALM)
    assert set(stepped) == steps
    assert len(steps) == 3
    assert sorted([*stepped, *calm]) == list(range(counting.input.batches))
    told = {one["batchId"]: one["durationMs"] for one in counting.running.recentProgress}
    assert stepped | calm == {batch: ms["triggerExecution"] / 1000 for batch, ms in told.items()}
    found = bands(lower)
    assert list(found) == ["worker 0", "worker 1", "worker 2"]
    assert [band[0] for band in found.values()] == [32, 32, 0]
    assert [band[-1] for band in found.values()] == [22, 21, 21]
    changes = {
        i for i in range(1, len(calm) + 3) if found["worker 2"][i] != found["worker 2"][i - 1]
    }
    assert changes == steps
    assert "21 bins moved in 3 steps" in texts(figure)
    assert f"query {counting.running.runId}" in texts(figure)


@BOTH
def test_a_picture_of_another_session_has_the_bins_alone(counting: InProcessQuery) -> None:
    plan = counting.megaphone.rescale(3, strategy="all-at-once", mode="direct")
    counting.finish(plan)
    counting.run()
    found = Megaphone.find(counting.spark.newSession(), counting.running.runId)
    figure = found.plot()
    (axes,) = figure.axes
    step = plan.steps[0].batch
    assert step is not None
    after = counting.input.batches - step
    assert bands(axes) == {
        "worker 0": [32] + [22] * after,
        "worker 1": [32] + [21] * after,
        "worker 2": [0] + [21] * after,
    }
    assert "is known to the session that started the query" in texts(figure)
    same = Megaphone.find(counting.spark, counting.running.runId)
    assert len(same.plot().axes) == 2


@BOTH_IN_THE_LONG_RUN
def test_a_query_that_was_started_again_has_the_batches_of_its_run(
    counting: InProcessQuery,
) -> None:
    counting.finish(counting.megaphone.rescale(3, strategy="all-at-once"))
    counting.run().stop()
    before = counting.input.batches
    counting.start().run(2)
    upper, lower = counting.megaphone.plot().axes
    assert list(bars(upper, _plot.CALM)) == [before, before + 1]
    assert bands(lower) == {"worker 0": [22, 22], "worker 1": [21, 21], "worker 2": [21, 21]}


def test_each_group_of_operators_has_a_panel(start: MakeQuery) -> None:
    def twice(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["k"]).selectExpr("k % 10 as k").groupBy("k").count()

    counting = start(twice).run()
    counting.finish(counting.megaphone.rescale(3, operator=1, strategy="all-at-once"))
    _, first, second = counting.run().megaphone.plot().axes
    assert set(bands(first)) == {"worker 0", "worker 1"}
    assert set(bands(second)) == {"worker 0", "worker 1", "worker 2"}
    assert (first.get_ylabel(), second.get_ylabel()) == (
        "bins by worker,\noperator 0",
        "bins by worker,\noperator 1",
    )


@BOTH_IN_THE_LONG_RUN
def test_before_the_first_batch_and_after_the_last_there_is_no_picture(start: MakeQuery) -> None:
    counting = start()
    with pytest.raises(errors.QueryNotStarted):
        counting.megaphone.plot()
    megaphone = counting.run().megaphone
    counting.stop()
    with pytest.raises(errors.QueryStopped):
        megaphone.plot()


def test_without_matplotlib_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(spark_megaphone, "_plot")
    monkeypatch.delitem(sys.modules, "spark_megaphone._plot")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError) as caught:
        Megaphone.__new__(Megaphone).plot()
    assert isinstance(caught.value, errors.MatplotlibMissing)
    assert str(caught.value) == (
        "plot() draws with matplotlib, which is not installed; install it with "
        'pip install "spark-megaphone[plot]".'
    )


def test_a_plan_that_is_trimmed_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(verb: str, *arguments: object) -> list[dict[str, str]]:
        if verb == "plans":
            return [{"id": "trimmed"}, {"id": "kept"}]
        if arguments == ("trimmed",):
            raise errors.UnknownPlan("The query has no plan trimmed.")
        return [{"plan": "kept"}]

    door = JvmDoor.__new__(JvmDoor)
    monkeypatch.setattr(door, "ask", ask)
    assert door.steps() == [{"plan": "kept"}]


def test_a_session_that_stops_meanwhile_is_told_as_everywhere() -> None:
    class Gone:
        @property
        def recentProgress(self) -> Any:  # noqa: N802 (Spark's name)
            raise Py4JNetworkError("Answer from Java side is empty")

    door = JvmDoor.__new__(JvmDoor)
    door._query = cast(Any, Gone())
    with pytest.raises(errors.QueryStopped, match="The Spark session of the query has stopped"):
        door.progress()


# ---- How it looks, without Spark.


def drawn(batches: int, workers: int, *, groups: int = 1, title: str = "query counts") -> Figure:
    """A query that begins slowly, and moves all bins of worker 0 half-way."""
    taken = Taken(0, batches // 2, dict.fromkeys(range(1000), 1))
    before = Shares(dict.fromkeys(range(workers), 1000))
    after = before + Shares({1: 1000}) - Shares({0: 1000})
    half = [before] * taken.batch + [after] * (batches - taken.batch)
    durations_s = {batch: 9.0 if batch == 0 else 0.5 + batch / 10 for batch in range(batches)}
    shares = dict.fromkeys(range(groups), half)
    return _plot.draw(title, History(range(batches), durations_s, [taken], shares))


LOOKS: dict[str, dict[str, Any]] = {
    "few": {"batches": 12, "workers": 4},
    "one batch": {"batches": 1, "workers": 2},
    "many": {"batches": 1000, "workers": 64},
    "groups": {"batches": 40, "workers": 8, "groups": 3},
    "a long title": {"batches": 40, "workers": 8, "title": "query " + "of a long name " * 12},
    "signs": {"batches": 40, "workers": 8, "title": "query $\\a$ {b}"},
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_nothing_is_cut_off_or_hides_another(look: dict[str, Any]) -> None:
    figure = drawn(**look)
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert 0 <= box.x0 < box.x1 <= width
    assert 0 <= box.y0 < box.y1 <= height
    panels = [axes.get_tightbbox() for axes in figure.axes]
    title = figure._suptitle.get_window_extent()  # type: ignore[attr-defined]
    for above, below in zip([title, *panels], panels, strict=False):
        assert above is not None
        assert below is not None
        assert below.y1 <= above.y0 + 1
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
        assert len(legend.get_texts()) <= 9


def test_a_slow_first_batch_is_cut_off_and_told() -> None:
    upper = drawn(batches=12, workers=4).axes[0]
    assert upper.get_ylim() == pytest.approx((0, 1.15 * 1.6))
    assert [text.get_text() for text in upper.texts] == [" 9.0 s ↑"]


def test_the_median_is_of_the_batches_without_a_step() -> None:
    figure = drawn(batches=4, workers=2)  # 9, 0.6, 0.7 (the step) and 0.8 seconds
    assert "median without a step: 0.80 s" in texts(figure)
    assert "1,000 bins moved in 1 step" in texts(figure)


def test_workers_have_blues_from_light_to_dark() -> None:
    assert _plot.worker_colours(3) == ["#c6dbef", "#6baed6", "#08519c"]
    assert _plot.worker_colours(1) == ["#c6dbef"]
    assert len(set(_plot.worker_colours(64))) == 64


def test_bins_whose_worker_is_not_known_are_grey() -> None:
    shares = {0: [Shares({0: 3, None: 5}), Shares({0: 3, 1: 5})]}
    figure = _plot.draw("query counts", History(range(2), None, [], shares))
    assert bands(figure.axes[0]) == {"worker 0": [3, 3], "worker 1": [0, 5], "not known": [5, 0]}


def test_a_notebook_shows_it_and_pyplot_does_not_keep_it() -> None:
    from matplotlib import pyplot

    figure = drawn(batches=12, workers=4)
    assert figure._repr_png_().startswith(PNG)  # type: ignore[attr-defined]
    assert pyplot.get_fignums() == []


def test_its_size_may_be_chosen() -> None:
    shares = {0: [Shares({0: 4})]}
    figure = _plot.draw("query", History(range(1), None, [], shares), (5, 3))
    assert tuple(figure.get_size_inches()) == (5, 3)
