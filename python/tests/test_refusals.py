# SPDX-License-Identifier: Apache-2.0
"""What a plan is refused for that could never be one: class, condition and sentence of the
error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_megaphone import Megaphone, Step, errors
from testkit.back_ends import BACK_ENDS, query_maker
from testkit.shapes import counts

# The handle as Any: many of these calls are wrong by their types already.
Case = tuple[str, type[errors.MegaphoneError], Callable[[Any], Any], str]

REFUSED: list[Case] = [
    (
        "no worker",
        errors.InvalidWorkers,
        lambda m: m.rescale(0),
        "The number of workers is 0, but it must be from 1 to 65536; ask for one in that range.",
    ),
    (
        "too many workers",
        errors.InvalidWorkers,
        lambda m: m.rescale(2**40),
        "The number of workers is 1099511627776, but it must be from 1 to 65536; ask for one in "
        "that range.",
    ),
    (
        "more workers than bins",
        errors.InvalidWorkers,
        lambda m: m.rescale(65),
        "The number of workers is 65, but it must be from 1 to 64, because there are 64 bins and a "
        "worker without a bin is idle; ask for one in that range.",
    ),
    (
        "a step of more workers than bins",
        errors.InvalidWorkers,
        lambda m: m.submit([Step({0: 64}, workers=65)]),
        "The number of workers is 65, but it must be from 1 to 64, because there are 64 bins and a "
        "worker without a bin is idle; ask for one in that range.",
    ),
    (
        "a float of workers",
        errors.WrongType,
        lambda m: m.rescale(2.0),
        "workers is 2.0, of type float, but a whole number from 1 to 65536 is needed.",
    ),
    (
        "a bool of workers",
        errors.WrongType,
        lambda m: m.rescale(True),
        "workers is True, of type bool, but a whole number from 1 to 65536 is needed.",
    ),
    (
        "the same workers",
        errors.EmptyPlan,
        lambda m: m.rescale(2),
        "The plan would move nothing: every bin is already where it is wanted; ask for another "
        "number of workers or other bins.",
    ),
    (
        "an unknown strategy",
        errors.UnknownStrategy,
        lambda m: m.rescale(3, strategy="quick"),
        "There is no strategy 'quick', only all-at-once, fluid, batched, batched(<bins per step>), "
        "optimized; choose one of these.",
    ),
    (
        "a strategy of no size",
        errors.InvalidBatchSize,
        lambda m: m.rescale(3, strategy="batched(0)"),
        "The strategy batched cannot move 0 bins a step, but a whole number from 1 to 65536; give "
        "one in that range, or leave it out.",
    ),
    (
        "a strategy that is no text",
        errors.WrongType,
        lambda m: m.rescale(3, strategy=7),
        "strategy is 7, of type int, but a str is needed.",
    ),
    (
        "an unknown mode",
        errors.UnknownMode,
        lambda m: m.rescale(3, mode="later"),
        "There is no transfer mode 'later', only direct, prepared, replicated, on-demand; choose "
        "one of these.",
    ),
    (
        "an unknown operator",
        errors.UnknownOperator,
        lambda m: m.rescale(3, operator=4),
        "The query has no stateful operator 4, only 0; name one of these, or none for all.",
    ),
    (
        "a negative operator",
        errors.UnknownOperator,
        lambda m: m.rescale(3, operator=-1),
        "There is no stateful operator -1, for they are numbered from 0; name one that workers() "
        "shows, or none for all.",
    ),
    (
        "a place for an unknown worker",
        errors.UnknownWorker,
        lambda m: m.place({5: "driver"}),
        "There is no worker 5, only workers 0 to 1; name one of these.",
    ),
    (
        "a place for a negative worker",
        errors.UnknownWorker,
        lambda m: m.place({-1: "driver"}),
        "There is no worker -1, only workers 0 to 65535 at most; name one of these.",
    ),
    (
        "an unknown executor",
        errors.UnknownExecutor,
        lambda m: m.place({0: 7}),
        "There is no executor '7', only driver; name one that executors() shows.",
    ),
    (
        "a worker that is there",
        errors.EmptyPlan,
        lambda m: m.place({0: "driver"}),
        "No worker would move: each is where it is wanted, or on its way there; name another "
        "executor.",
    ),
    (
        "no worker to place",
        errors.EmptyPlan,
        lambda m: m.place({}),
        "No worker would move, for none is named; give {worker: executor}.",
    ),
    (
        "places that are no mapping",
        errors.WrongType,
        lambda m: m.place([0]),
        "The workers are [0], but {worker: executor} is needed.",
    ),
    (
        "an executor that is no id",
        errors.WrongType,
        lambda m: m.place({0: 1.5}),
        "executor is 1.5, of type float, but the id of an executor, such as '1', is needed.",
    ),
    (
        "a load that is even",
        errors.EmptyPlan,
        lambda m: m.spread(),
        "No worker would move: the load of the executors is as even as whole workers can make it; "
        "rescale to more workers, or move bins, if that is not even enough.",
    ),
    (
        "a tolerance out of range",
        errors.InvalidTolerance,
        lambda m: m.spread(tolerance=2),
        "The tolerance is 2, but it must be from 0.01 to 1; give one in that range.",
    ),
    (
        "a mode that needs standbys",
        errors.NoReplicas,
        lambda m: m.rescale(3, mode="replicated"),
        "Mode replicated needs executors that stand by, but spark.megaphone.replicas was 0 when "
        "the query was started; start it with 1 or more, or choose mode prepared or direct.",
    ),
    (
        "a drain of the last executor",
        errors.LastExecutor,
        lambda m: m.drain("driver"),
        "Executor driver is the last one that takes state; start another before this one is "
        "emptied.",
    ),
    (
        "a drain of an unknown executor",
        errors.UnknownExecutor,
        lambda m: m.drain(7),
        "There is no executor '7', only driver; name one that executors() shows.",
    ),
    (
        "executors of an application in one process",
        errors.NoRequest,
        lambda m: m.request_executors(2),
        "The application runs in one process, so it has no executors to ask for; start it on a "
        "cluster.",
    ),
    (
        "no executor",
        errors.InvalidExecutors,
        lambda m: m.request_executors(0),
        "The number of executors is 0, but it must be from 1 to 10000; ask for one in that range.",
    ),
    (
        "a float of executors",
        errors.WrongType,
        lambda m: m.request_executors(2.0),
        "total is 2.0, of type float, but a whole number from 1 to 10000 is needed.",
    ),
    (
        "a drain of no time",
        errors.WrongType,
        lambda m: m.drain("driver", timeout="soon"),
        "timeout is 'soon', but a number of seconds is needed, or None.",
    ),
    (
        "no moves",
        errors.EmptyPlan,
        lambda m: m.move({}),
        "The plan asks for nothing, but it needs at least one bin or worker to move; name one.",
    ),
    (
        "a move to where the bin is",
        errors.EmptyPlan,
        lambda m: m.move({0: 0}),
        "The plan would move nothing: every bin is already where it is wanted; ask for another "
        "number of workers or other bins.",
    ),
    (
        "an unknown bin",
        errors.UnknownBin,
        lambda m: m.move({64: 0}),
        "There is no bin 64, only bins 0 to 63; name one of these.",
    ),
    (
        "a negative bin",
        errors.UnknownBin,
        lambda m: m.move({-1: 0}),
        "There is no bin -1, only bins 0 to 63; name one of these.",
    ),
    (
        "a bin beyond any number of bins",
        errors.UnknownBin,
        lambda m: m.move({2**31: 0}),
        "There is no bin 2147483648, only bins 0 to 65535 at most; name one of these.",
    ),
    (
        "an unknown worker",
        errors.UnknownWorker,
        lambda m: m.move({0: 2}),
        "There is no worker 2, only workers 0 to 1; name one of these, or rescale first.",
    ),
    (
        "a worker beyond any number of workers",
        errors.UnknownWorker,
        lambda m: m.move({0: -(2**31)}),
        "There is no worker -2147483648, only workers 0 to 65535 at most; name one of these.",
    ),
    (
        "a bin twice",
        errors.DuplicateBin,
        lambda m: m.move([(3, 0), (3, 1)]),
        "Bin 3 is moved twice, but a bin has one target; keep one of its moves.",
    ),
    (
        "moves of no kind",
        errors.WrongType,
        lambda m: m.move(3),
        "The moves are 3, but {bin: worker} or pairs of bin and worker are needed.",
    ),
    (
        "moves that are no pairs",
        errors.WrongType,
        lambda m: m.move([1, 2]),
        "The moves are [1, 2], but {bin: worker} or pairs of bin and worker are needed.",
    ),
    (
        "a bin that is a bool",
        errors.WrongType,
        lambda m: m.move({True: 1}),
        "A bin is True, of type bool, but a whole number from 0 to 65535 is needed.",
    ),
    (
        "a worker that is text",
        errors.WrongType,
        lambda m: m.move({1: "1"}),
        "A worker is '1', of type str, but a whole number from 0 to 65535 is needed.",
    ),
    (
        "no steps",
        errors.EmptyPlan,
        lambda m: m.submit([]),
        "The plan has no steps, but it needs at least one; add a step of {bin: worker}.",
    ),
    (
        "an empty step",
        errors.EmptyPlan,
        lambda m: m.submit([{0: 1}, {}]),
        "The plan asks for nothing, but it needs at least one bin or worker to move; name one.",
    ),
    (
        "steps that change nothing",
        errors.EmptyPlan,
        lambda m: m.submit([{0: 0}, Step(workers=2)]),
        "The plan would move nothing: every bin is already where it is wanted; ask for another "
        "number of workers or other bins.",
    ),
    (
        "moves instead of steps",
        errors.WrongType,
        lambda m: m.submit({0: 1}),
        "The plan is {0: 1}, but a list of steps is needed: [{bin: worker}, …].",
    ),
    (
        "a worker that a step takes away",
        errors.WorkerNotEmpty,
        lambda m: m.submit([Step({1: 0}, workers=1)]),
        "Worker 1 still owns bin 3, but with 1 workers the last is 0; move its bins away, or keep "
        "more workers.",
    ),
    (
        "a worker that only a later step makes",
        errors.UnknownWorker,
        lambda m: m.submit([{0: 2}, Step({2: 2}, workers=3)]),
        "There is no worker 2, only workers 0 to 1; name one of these, or rescale first.",
    ),
    (
        "a plan that is not there",
        errors.UnknownPlan,
        lambda m: m.cancel("abc"),
        "The query has no plan abc; plans() lists those it has.",
    ),
    (
        "an id that is no text",
        errors.WrongType,
        lambda m: m.plan(3),
        "id is 3, of type int, but a str is needed.",
    ),
]


@pytest.fixture(scope="module", params=BACK_ENDS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A query of which no plan is ever accepted."""
    made = query_maker(request, request.param)
    query = made(tmp_path_factory.mktemp("shared"), counts, format=1)
    query.start().run()
    yield query.running
    query.stop()


@pytest.mark.parametrize(
    ("error", "ask", "sentence"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_cannot_be_is_refused(
    shared: Any, error: type[errors.MegaphoneError], ask: Callable[[Megaphone], Any], sentence: str
) -> None:
    megaphone = Megaphone(shared)
    with pytest.raises(errors.MegaphoneError) as caught:
        ask(megaphone)
    assert (type(caught.value), str(caught.value)) == (error, sentence)
    assert caught.value.condition == error.condition
    assert len(megaphone.plans()) == 0
