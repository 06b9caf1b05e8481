# SPDX-License-Identifier: Apache-2.0
"""The classes of errors, and the conditions that the JVM half lists."""

from collections.abc import Iterator

import pytest

from spark_megaphone import errors
from spark_megaphone._conditions import CONDITIONS, OF_CALLS
from spark_megaphone.errors import MegaphoneError


def classes(base: type[MegaphoneError] = MegaphoneError) -> Iterator[type[MegaphoneError]]:
    """Every class of errors that has a condition of its own."""
    for error in base.__subclasses__():
        if "condition" in vars(error):
            yield error
        yield from classes(error)


@pytest.mark.parametrize("condition", OF_CALLS)
def test_a_condition_that_a_call_may_raise_has_a_class(condition: str) -> None:
    error = errors.error_of(condition, "A sentence.")
    assert type(error) is not MegaphoneError
    assert (error.condition, str(error)) == (condition, "A sentence.")


@pytest.mark.parametrize("error", list(classes()), ids=lambda error: error.__name__)
def test_the_condition_of_a_class_is_listed(error: type[MegaphoneError]) -> None:
    assert error.condition in CONDITIONS


@pytest.mark.parametrize("error", list(classes()), ids=lambda error: error.__name__)
def test_a_class_says_what_its_condition_says(error: type[MegaphoneError]) -> None:
    words = " ".join((error.__doc__ or "").split())
    first = words.partition(". ")[0].removesuffix(".") + "."
    assert first == CONDITIONS[error.condition][1]


def test_no_two_classes_have_the_same_condition() -> None:
    conditions = [error.condition for error in classes()]
    assert len(conditions) == len(set(conditions)) > 30


def test_a_condition_has_an_sqlstate_and_a_sentence() -> None:
    for state, sentence in CONDITIONS.values():
        assert len(state) == 5
        assert sentence.endswith(".")
    assert set(OF_CALLS) < set(CONDITIONS)
