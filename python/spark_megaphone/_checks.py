# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments, made before anything else happens.

Where the JVM has the same check, the sentence is the same.
"""

import math
import operator
import re
import time
from collections.abc import Iterable, Mapping

from spark_megaphone.conf import BINS_MAX, EXECUTORS_MAX, MODES, STRATEGIES, WORKERS_MAX
from spark_megaphone.errors import (
    DuplicateBin,
    EmptyPlan,
    InvalidBatchSize,
    InvalidBins,
    InvalidExecutors,
    InvalidTimeout,
    InvalidTolerance,
    InvalidWorkers,
    UnknownBin,
    UnknownMode,
    UnknownOperator,
    UnknownStrategy,
    UnknownWorker,
    WrongType,
)

Moves = Mapping[int, int] | Iterable[tuple[int, int]]

ALL_OPERATORS = -1  # as the plugin reads it
CONFIGURED = -1.0  # as the plugin reads it
_TOLERANCE_MIN = 0.01
_YEAR_S = 365 * 24 * 3600
_JVM_INT_MAX = 2**31 - 1
_BIN = f"a whole number from 0 to {BINS_MAX - 1}"
_WORKER = f"a whole number from 0 to {WORKERS_MAX - 1}"
_BATCHED_OF = re.compile(r"batched\(\s*(.*?)\s*\)", re.ASCII)


def whole(name: str, value: object, needed: str = "a whole number") -> int:
    """Checks a whole number, also one of numpy's.

    Args:
        name: What the value is, for the message.
        value: What was given.
        needed: What is allowed, for the message.

    Returns:
        The value as an int.

    Raises:
        WrongType: It is no whole number, or it is a bool.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        kind = type(value).__name__
        raise WrongType(f"{name} is {value!r}, of type {kind}, but {needed} is needed.") from None


def text(name: str, value: object) -> str:
    """Checks a str.

    Args:
        name: What the value is, for the message.
        value: What was given.

    Returns:
        The value.

    Raises:
        WrongType: It is not a str.
    """
    if not isinstance(value, str):
        raise WrongType(
            f"{name} is {value!r}, of type {type(value).__name__}, but a str is needed."
        )
    return value


def bins_count(value: object) -> int:
    """Checks a number of bins.

    Args:
        value: What was given.

    Returns:
        The value as an int.

    Raises:
        WrongType: It is no whole number.
        InvalidBins: It is not a power of two in range.
    """
    bins = whole("bins", value, f"a power of two from 1 to {BINS_MAX}")
    if bins < 1 or bins > BINS_MAX or bins & (bins - 1):
        near = 1 if bins < 1 else min(1 << (bins.bit_length() - 1), BINS_MAX)
        raise InvalidBins(
            f"The number of bins is {bins}, but it must be a power of two from 1 to {BINS_MAX}; "
            f"use {near}, for example."
        )
    return bins


def workers_count(value: object) -> int:
    """Checks a number of workers.

    Args:
        value: What was given.

    Returns:
        The value as an int.

    Raises:
        WrongType: It is no whole number.
        InvalidWorkers: It is out of range.
    """
    return _count("workers", "workers", value, WORKERS_MAX, InvalidWorkers)


def strategy_name(value: object) -> str:
    """Checks the name of a strategy.

    Args:
        value: What was given, in upper or lower case.

    Returns:
        The name as the JVM reads it.

    Raises:
        WrongType: It is not a str.
        UnknownStrategy: There is no such strategy.
        InvalidBatchSize: The k of `batched(k)` is out of range.
    """
    given = text("strategy", value)
    name = given.strip().lower()
    if found := _BATCHED_OF.fullmatch(name):
        size = found.group(1)
        if not re.fullmatch(r"\+?0*[0-9]{1,9}", size) or not 1 <= int(size) <= BINS_MAX:
            raise InvalidBatchSize(
                f"The strategy batched cannot move {size} bins a step, but a whole number from 1 "
                f"to {BINS_MAX}; give one in that range, or leave it out."
            )
    elif name not in STRATEGIES or "<" in name:
        allowed = ", ".join(STRATEGIES)
        raise UnknownStrategy(
            f"There is no strategy '{given}', only {allowed}; choose one of these."
        )
    return name


def mode_name(value: object) -> str:
    """Checks the name of a transfer mode.

    Args:
        value: What was given, in upper or lower case.

    Returns:
        The name as the JVM reads it.

    Raises:
        WrongType: It is not a str.
        UnknownMode: There is no such mode.
    """
    given = text("mode", value)
    name = given.strip().lower()
    if name not in MODES:
        allowed = ", ".join(MODES)
        raise UnknownMode(
            f"There is no transfer mode '{given}', only {allowed}; choose one of these."
        )
    return name


def operator_id(value: object) -> int:
    """Checks the id of a stateful operator.

    Args:
        value: What was given; None for all operators.

    Returns:
        The id as the JVM reads it: -1 for all operators.

    Raises:
        WrongType: It is no whole number.
        UnknownOperator: No query can have such an operator.
    """
    if value is None:
        return ALL_OPERATORS
    number = whole("operator", value)
    if not 0 <= number <= _JVM_INT_MAX:
        raise UnknownOperator(
            f"There is no stateful operator {number}, for they are numbered from 0; name one that "
            "workers() shows, or none for all."
        )
    return number


def moves_of(moves: object) -> dict[int, int]:
    """Checks moves. Whether the query has these bins and workers is for the JVM to say.

    Args:
        moves: Bin to worker, or pairs of the two.

    Returns:
        Bin to worker, in the order given.

    Raises:
        WrongType: They are no moves, or something is no whole number.
        DuplicateBin: A bin comes twice.
        UnknownBin: No query can have such a bin.
        UnknownWorker: No query can have such a worker.
    """
    checked: dict[int, int] = {}
    for bin_, worker in _pairs(moves):
        number, target = whole("A bin", bin_, _BIN), whole("A worker", worker, _WORKER)
        if abs(number) > _JVM_INT_MAX:
            raise UnknownBin(
                f"There is no bin {number}, only bins 0 to {BINS_MAX - 1} at most; name one of "
                "these."
            )
        if abs(target) > _JVM_INT_MAX:
            raise _no_worker(target)
        if number in checked:
            raise DuplicateBin(
                f"Bin {number} is moved twice, but a bin has one target; keep one of its moves."
            )
        checked[number] = target
    return checked


def seconds(name: str, value: object) -> float:
    """Checks a time.

    Args:
        name: What the value is, for the message.
        value: What was given.

    Returns:
        The value as a float.

    Raises:
        WrongType: It is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise WrongType(f"{name} is {value!r}, but a number of seconds is needed, or None.")
    return float(value)


def deadline(timeout: object) -> float:
    """Checks how long to wait.

    Args:
        timeout: Seconds from now; None for no limit.

    Returns:
        When the time is up, as `time.monotonic` counts.

    Raises:
        WrongType: It is no number.
    """
    return math.inf if timeout is None else time.monotonic() + seconds("timeout", timeout)


def timeout_ms(value: object) -> int:
    """Checks the time that a drain may take.

    Args:
        value: Seconds; None for no limit.

    Returns:
        Milliseconds, as the JVM reads them: 0 for no limit.

    Raises:
        WrongType: It is no number.
        InvalidTimeout: It is out of range.
    """
    if value is None:
        return 0
    given = seconds("timeout", value)
    if not 0.001 <= given <= _YEAR_S:
        raise InvalidTimeout(
            f"The timeout is {given} s, but it must be from 0.001 s to a year; give one in that "
            "range, or none."
        )
    return round(given * 1000)


def tolerance_of(value: object) -> float:
    """Checks a tolerance.

    Args:
        value: What was given; None for the configured one.

    Returns:
        The value as the JVM reads it: -1 for the configured one.

    Raises:
        WrongType: It is no number.
        InvalidTolerance: It is out of range.
    """
    if value is None:
        return CONFIGURED
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType(f"tolerance is {value!r}, but a number from 0.01 to 1 is needed, or None.")
    if not _TOLERANCE_MIN <= value <= 1:
        raise InvalidTolerance(
            f"The tolerance is {value}, but it must be from 0.01 to 1; give one in that range."
        )
    return float(value)


def executor_id(value: object) -> str:
    """Checks the id of an executor, which may be given as a number.

    Args:
        value: What was given.

    Returns:
        The id as Spark has it.

    Raises:
        WrongType: It is neither a str nor a whole number.
    """
    if isinstance(value, str):
        return value
    return str(whole("executor", value, "the id of an executor, such as '1',"))


def executors_count(value: object) -> int:
    """Checks a number of executors. How many there are, is for the JVM to say.

    Args:
        value: What was given.

    Returns:
        The value as an int.

    Raises:
        WrongType: It is no whole number.
        InvalidExecutors: No application can have so many.
    """
    return _count("total", "executors", value, EXECUTORS_MAX, InvalidExecutors)


def boolean(name: str, value: object) -> bool:
    """Checks what must be true or false.

    Args:
        name: Of the argument.
        value: What was given.

    Returns:
        The value.

    Raises:
        WrongType: It is neither True nor False.
    """
    if isinstance(value, bool):
        return value
    raise WrongType(f"{name} is {value!r}, but it must be True or False.")


def places_of(workers: object) -> dict[str, str]:
    """Checks which workers are to go where. What there is, is for the JVM to say.

    Args:
        workers: Worker to executor.

    Returns:
        The same, as the JVM reads it.

    Raises:
        WrongType: It is no such mapping.
        UnknownWorker: No query can have such a worker.
        EmptyPlan: It names no worker.
    """
    if not isinstance(workers, Mapping):
        raise WrongType(f"The workers are {workers!r}, but {{worker: executor}} is needed.")
    if not workers:
        raise EmptyPlan("No worker would move, for none is named; give {worker: executor}.")
    found = {}
    for worker, executor in workers.items():
        number = whole("A worker", worker, _WORKER)
        if not 0 <= number < WORKERS_MAX:
            raise _no_worker(number)
        found[str(number)] = executor_id(executor)
    return found


def _count(
    name: str, what: str, value: object, most: int, error: type[InvalidWorkers | InvalidExecutors]
) -> int:
    """Checks how many there are to be of something, from 1 to `most`."""
    count = whole(name, value, f"a whole number from 1 to {most}")
    if not 1 <= count <= most:
        raise error(
            f"The number of {what} is {count}, but it must be from 1 to {most}; ask for one in "
            "that range."
        )
    return count


def _no_worker(number: int) -> UnknownWorker:
    return UnknownWorker(
        f"There is no worker {number}, only workers 0 to {WORKERS_MAX - 1} at most; name one of "
        "these."
    )


def _pairs(moves: object) -> Iterable[tuple[object, object]]:
    if isinstance(moves, Mapping):
        return moves.items()
    wrong = WrongType(
        f"The moves are {moves!r}, but {{bin: worker}} or pairs of bin and worker are needed."
    )
    if isinstance(moves, str | bytes) or not isinstance(moves, Iterable):
        raise wrong
    pairs = []
    for pair in moves:
        try:
            bin_, worker = pair
        except (TypeError, ValueError):
            raise wrong from None
        pairs.append((bin_, worker))
    return pairs
