# SPDX-License-Identifier: Apache-2.0
"""Checks made in Python agree with those of the JVM, for whatever comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from spark_megaphone import Step, _checks, errors

WITH_JVM = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

STRATEGY_LIKE = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["fluid", " Fluid", "ALL-AT-ONCE", "optimized", "batched", "batched()", "batched", "direct"]
    ),
    st.builds(
        "batched({})".format, st.one_of(st.integers(-3, 70000), st.integers(), st.text(max_size=4))
    ),
    st.builds("Batched( {} ) ".format, st.integers(0, 9)),
)


def jvm_says(ask: Any, value: object) -> str | None:
    """The sentence with which the JVM refuses; None if it accepts."""
    try:
        ask(value)
    except IllegalArgumentException as refused:
        origin = getattr(refused, "_origin")  # noqa: B009 (PySpark does not declare it)
        return str(origin.getMessage())
    return None


def python_says(ask: Any, value: object) -> str | None:
    try:
        ask(value)
    except errors.MegaphoneError as refused:
        return str(refused)
    return None


@WITH_JVM
@given(text=STRATEGY_LIKE)
def test_a_strategy_is_refused_as_the_jvm_does_or_before_it(spark: SparkSession, text: str) -> None:
    parse = spark._jvm.io.megaphone.plan.Strategy.parse  # type: ignore[union-attr]
    here, there = python_says(_checks.strategy_name, text), jvm_says(parse, text)
    assert here is not None or there is None
    if text.isascii() and text.isprintable():
        assert here == there


@WITH_JVM
@given(
    text=st.one_of(
        st.text(max_size=9), st.sampled_from(["direct", " Prepared ", "PREPARED", "fluid"])
    )
)
def test_a_mode_is_refused_as_the_jvm_does_or_before_it(spark: SparkSession, text: str) -> None:
    parse = spark._jvm.io.megaphone.plan.TransferMode.parse  # type: ignore[union-attr]
    here, there = python_says(_checks.mode_name, text), jvm_says(parse, text)
    assert here is not None or there is None
    if text.isascii() and text.isprintable():
        assert here == there


@WITH_JVM
@given(bins=st.one_of(st.integers(-5, 70000), st.integers(0, 18).map(lambda bits: 1 << bits)))
def test_a_number_of_bins_is_refused_as_the_jvm_does(spark: SparkSession, bins: int) -> None:
    check = spark._jvm.io.megaphone.plan.Bins.check  # type: ignore[union-attr]
    assert python_says(_checks.bins_count, bins) == jvm_says(check, bins)


NOT_WHOLE = st.one_of(
    st.booleans(),
    st.floats(),
    st.text(),
    st.none(),
    st.binary(),
    st.lists(st.integers()),
    st.decimals(),
)


@given(value=NOT_WHOLE)
def test_only_whole_numbers_are_whole_numbers(value: object) -> None:
    with pytest.raises(errors.WrongType, match="but a whole number is needed"):
        _checks.whole("workers", value)


@given(moves=st.dictionaries(st.integers(0, 2**16), st.integers(0, 2**16)))
def test_moves_keep_their_order_as_a_mapping_and_as_pairs(moves: dict[int, int]) -> None:
    assert list(_checks.moves_of(moves).items()) == list(moves.items())
    assert _checks.moves_of(iter(moves.items())) == moves
    assert Step(moves) == Step(list(moves.items()))


@given(
    moves=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1),
    workers=st.none() | st.integers(1, 9),
)
def test_a_step_takes_each_bin_once(moves: list[tuple[int, int]], workers: int | None) -> None:
    if len({bin_ for bin_, _ in moves}) == len(moves):
        moved = {str(bin_): worker for bin_, worker in moves}
        assert Step(moves, workers).as_row() == {"moves": moved, "workers": workers}
    else:
        with pytest.raises(errors.DuplicateBin):
            Step(moves, workers)


def test_a_step_has_workers_in_range() -> None:
    with pytest.raises(errors.InvalidWorkers):
        Step({0: 1}, workers=0)
    with pytest.raises(errors.WrongType):
        Step({0: 1}, workers=False)
