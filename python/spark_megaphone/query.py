# SPDX-License-Identifier: Apache-2.0
"""The handle on a running query: moves its state, and shows where it is."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from spark_megaphone import _checks, _door, _history, _html, _tables
from spark_megaphone._checks import Moves
from spark_megaphone._door import Door, Query
from spark_megaphone.errors import (
    EmptyPlan,
    MatplotlibMissing,
    MegaphoneError,
)
from spark_megaphone.plan import Plan, Step, steps_of
from spark_megaphone.relocation import Drain, Relocations, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession


class Megaphone:
    """A handle on a running `StreamingQuery` of an application with the plugin.

    The query may be one of a classic session, which `configure` prepared, or one that runs through
    Spark Connect, whose server was started with the plugin. All methods do the same for both.

    Handles are cheap, any number may be made for one query, and any thread may use one.

    Once the query has stopped, every method but `queries`, `executors`, `drain`, `undrain`,
    `drains` and `request_executors` raises `QueryStopped`; a restarted query needs a new handle.
    Before the first batch they raise `QueryNotStarted`, and for a query without state in bins
    `NoBinnedState`. A query that is about to plan its first batch is waited for, up to a minute;
    one that waits for data or for its trigger is not.

    `rescale`, `move` and `submit` return as soon as the plan is in the checkpoint's plan log. From
    then on the plan survives restarts of the query, and takes effect as batches run. They share
    three arguments: `strategy` (how moves are grouped into steps), `mode` (when the bytes travel),
    each None for the configured one, and `operator` (the id of a stateful operator, whose group of
    operators alone moves; None for all groups that can move). They share these errors, after which
    all is as it was: `OverlappingPlan` while another plan of the same operators is open,
    `EmptyPlan` if nothing would change, `UnknownStrategy`, `InvalidBatchSize`, `UnknownMode`,
    `UnknownOperator`, `NotMovable`, `WrongType`, `InvalidConfiguration`. After `PlanLogNotWritten`
    it is not known whether the plan is in the plan log: look at `plans()`.

    Args:
        query: The running query. One that has stopped is noticed when the handle is used.

    Raises:
        JarMissing: The session was started without the jar.
        PluginMissing: The session was started without the plugin.
        VersionMismatch: The session has the jar of another version than this package's.
        QueryStopped: The session has stopped.
        WrongType: It is no streaming query.
    """

    def __init__(self, query: Query) -> None:
        self._door: Door = _door.door_of(query)

    @classmethod
    def find(cls, spark: "SparkSession", query: str) -> Self:
        """A handle on a query that is known by its name or id.

        It may have been started by another session of the application, or by another client of the
        same Spark Connect server.

        Args:
            spark: A session of the application, classic or of Spark Connect.
            query: The query's name, id or run id.

        Returns:
            The handle.

        Raises:
            UnknownQuery: No query that runs is called so.
            AmbiguousQuery: More than one is.
            NoBinnedState: It has no state in bins.
            QueryNotStarted: It has not planned a batch with state yet.
            PluginMissing: The application has no plugin, or not its SQL catalog.
            VersionMismatch: The application has the jar of another version than this package's.
            WrongType: `query` is not a str.
        """
        handle = cls.__new__(cls)
        handle._door = _door.find(spark, _checks.text("query", query))
        return handle

    def rescale(
        self,
        workers: int,
        *,
        strategy: str | None = None,
        mode: str | None = None,
        operator: int | None = None,
    ) -> Plan:
        """Spreads the state evenly over a number of workers, with the fewest moves.

        Called again, it raises `OverlappingPlan` while the first plan is open, and `EmptyPlan` once
        that plan is done.

        Args:
            workers: How many there should be: from 1 to the number of bins, for a worker without a
                bin is idle. The present number rebalances.
            strategy: See the class.
            mode: See the class.
            operator: See the class.

        Returns:
            The plan, which has been submitted; `Plan.wait` waits until it is done.

        Raises:
            InvalidWorkers: `workers` is out of range. For the others see the class.
        """
        return self._submitted("rescale", _checks.workers_count(workers), strategy, mode, operator)

    def move(
        self,
        moves: Moves,
        *,
        strategy: str | None = None,
        mode: str | None = None,
        operator: int | None = None,
    ) -> Plan:
        """Moves bins to workers that are there already.

        Called again, it raises `OverlappingPlan` while the first plan is open, and `EmptyPlan` once
        that plan is done.

        Args:
            moves: Bin to target worker, or pairs of the two. Moves of a bin to where it is are left
                out.
            strategy: See the class.
            mode: See the class.
            operator: See the class.

        Returns:
            The plan, which has been submitted.

        Raises:
            UnknownBin: The query has no such bin.
            UnknownWorker: The query has no such worker; rescale first.
            DuplicateBin: A bin comes twice. For the others see the class.
        """
        return self._submitted("move", _checks.moves_of(moves), strategy, mode, operator)

    def submit(
        self,
        plan: Iterable[Step | Moves],
        *,
        strategy: str | None = None,
        mode: str | None = None,
        operator: int | None = None,
    ) -> Plan:
        """Submits steps made by hand.

        Called again, it raises `OverlappingPlan` while the first plan is open.

        Args:
            plan: The steps in order, each a `Step` or just its moves, `{bin: worker}`. Two steps
                may move the same bin. Steps that change nothing are left out.
            strategy: None leaves the steps as they are; another cuts each into smaller ones.
            mode: See the class.
            operator: See the class.

        Returns:
            The plan, which has been submitted.

        Raises:
            UnknownBin: The query has no such bin.
            UnknownWorker: The query has no such worker at that step.
            DuplicateBin: A bin comes twice in one step.
            InvalidWorkers: A step's number of workers is out of range.
            WorkerNotEmpty: A step takes a worker away that still owns bins. For the others see the
                class.
        """
        steps = steps_of(plan)
        if not steps:
            raise EmptyPlan(
                "The plan has no steps, but it needs at least one; add a step of {bin: worker}."
            )
        rows = [step.as_row() for step in steps]
        return self._submitted("submit", rows, strategy, mode, operator)

    def plan(self, id: str) -> Plan:
        """A plan that was submitted earlier, by any handle, also before a restart.

        Args:
            id: What `Plan.id` and the table of `plans` have.

        Returns:
            The plan, as it is now.

        Raises:
            UnknownPlan: It is no plan of this query, or it ended so long ago that the plan log was
                trimmed.
            WrongType: `id` is not a str. For the others see the class.
        """
        return Plan(self._door, self._door.ask("plan", _checks.text("id", id)))

    def cancel(self, plan: Plan | str) -> None:
        """Drops the steps of a plan that have not taken effect.

        Does nothing if the plan has ended, or was cancelled before.

        Args:
            plan: The plan, or its id.

        Raises:
            UnknownPlan: It is no plan of this query, or it ended so long ago that the plan log was
                trimmed.
            PlanLogNotWritten: It is not known whether the plan is cancelled; call it again.
            WrongType: `plan` is neither a plan nor a str. For the others see the class.
        """
        self._door.ask("cancel", plan.id if isinstance(plan, Plan) else _checks.text("plan", plan))

    def bins(self) -> pa.Table:
        """Where each bin is: `operator`, `bin`, `worker`, and the worker's last `executor`.

        And how large it is: `keys`, `bytes`, the `bytes_written` to it by one batch, and how many
        `accesses` to its keys a batch makes. Tasks tell these with a step and else every ten
        seconds.

        This and the other tables are of the moment they are asked for, and have fixed schemas, also
        without a row. What is not known yet is null.

        Returns:
            A row for each bin of each group of operators.

        Raises:
            QueryStopped: The query has stopped. For the others see the class.
        """
        return self._table("bins", _tables.BINS)

    def workers(self) -> pa.Table:
        """What each worker has: `bins`, `keys`, `bytes`, `executor`, `last_batch` and `standbys`.

        A worker is named by its `operator` and its number, `worker`. `busy_ms` is how long its
        tasks use the state in a batch: a moving average. `bins_incomplete` and `bytes_to_come`
        tell what a step on demand has left elsewhere, as of the worker's last batch.

        Returns:
            A row for each worker of each group of operators.

        Raises:
            QueryStopped: The query has stopped. For the others see the class.
        """
        return self._table("workers", _tables.WORKERS)

    def plans(self) -> pa.Table:
        """The plans that the plan log still has, in the order of submission.

        With the `status` of each, the `batches` at which steps took effect, and the `reason` why
        some moves were not made, why steps cannot be prepared, or why bins that have moved stay
        incomplete. Trimming keeps the plans that are open, those that moved bins since the oldest
        retained version, and up to a hundred of those that ended last.

        Returns:
            A row for each plan.

        Raises:
            QueryStopped: The query has stopped. For the others see the class.
        """
        return self._table("plans", _tables.PLANS)

    def migrations(self) -> pa.Table:
        """What moved, and what was recovered.

        With the bins' origins, their bytes, and how long the batch waited (`wait_ms`). Of this run
        only.

        Returns:
            A row for each batch, store and worker that bins moved into, that was recovered
            (`is_recovery`), or that read what was newer than the state its executor had: the
            newest 20,000.

        Raises:
            QueryStopped: The query has stopped. For the others see the class.
        """
        return self._table("migrations", _tables.MIGRATIONS)

    def spread(self, *, tolerance: float | None = None) -> Relocations:
        """Evens the load of the executors out, by whole workers of this query.

        An executor's part of the load is that of its cores; the load is the bytes of live records
        and the time that tasks use them, over all queries. A worker keeps its bins, and goes once
        its target has its state. Called again, it begins what is still lacking.

        Args:
            tolerance: How far from its part an executor's load may stay, as a fraction of the
                part, from 0.01 to 1; None for the configured one.

        Returns:
            The relocations that have begun.

        Raises:
            EmptyPlan: The load is as even as whole workers can make it.
            LoadsNotKnown: Not every worker has committed a batch since the query was started.
            InvalidTolerance: `tolerance` is out of range.
            WrongType: It is no number. For the others see the class.
        """
        rows = self._door.ask("spread", _checks.tolerance_of(tolerance))
        return Relocations(self._door, rows)

    def place(
        self, workers: Mapping[int, str | int], *, operator: int | None = None
    ) -> Relocations:
        """Takes workers to executors, once their state is there.

        A worker keeps its bins. One that is on its way elsewhere turns round.

        Args:
            workers: Worker to executor.
            operator: An operator of the workers' group; None if the query has one group.

        Returns:
            The relocations that have begun: none of workers that are there already.

        Raises:
            UnknownWorker: The query has no such worker.
            UnknownExecutor: The application has no such executor.
            ExecutorLeaving: The executor takes no state any more.
            EmptyPlan: All of them are there, or on their way there.
            UnknownOperator: The query has no such operator.
            InvalidArgument: The query has several groups, and `operator` is None.
            WrongType: `workers` is no mapping of workers to executors. For the others see the
                class.
        """
        asked = _checks.places_of(workers)
        rows = self._door.ask("place", asked, _checks.operator_id(operator))
        return Relocations(self._door, rows)

    def relocations(self) -> pa.Table:
        """Workers that were to go to other executors, in the order in which that began.

        With `id`, `operator`, `worker`, the `source` and `target` executors, `why` (drain, spread
        or place), the `status` (making, taken, then done, failed or cancelled), the worker's
        `bytes`, the `bytes_ready` of them on the target, the `batch` that placed it there, and the
        `reason` why it failed. Of this run only.

        Returns:
            A row for each: those under way, and the newest 1,000 that ended.

        Raises:
            QueryStopped: The query has stopped. For the others see the class.
        """
        return self._table("relocations", _tables.RELOCATIONS)

    def relocation(self, id: int) -> Relocations:
        """A relocation that began by itself, by a drain, or by another handle.

        Args:
            id: As the table of `relocations` has it.

        Returns:
            That relocation alone.

        Raises:
            UnknownRelocation: The run has no such relocation, or it ended long ago.
            WrongType: `id` is no whole number. For the others see the class.
        """
        number = _checks.whole("id", id)
        rows = [row for row in self._door.ask("relocations") if row["id"] == number]
        if not rows:
            raise unknown(number)
        return Relocations(self._door, rows)

    def plot(self, figsize: tuple[float, float] | None = None) -> "Figure":
        """Draws how long the newest batches took, and how many bins each worker had.

        Batches at which steps took effect are orange. A panel for each group of operators has the
        bins by worker; grey are those whose worker of then is not known, because the plan log was
        trimmed. The picture has the batches whose progress Spark keeps: a hundred, unless
        `spark.sql.streaming.numRecentProgressUpdates` says otherwise, and at most a thousand. Their
        durations are known to the session that started the query: from another one it has the bins
        alone, from the first step that the plan log has.

        Each call makes a new picture, of the moment. A notebook shows it by itself; elsewhere,
        `plot().savefig("query.png")` writes it to a file. No call of pyplot is needed.

        Args:
            figsize: Width and height in inches; None for what suits the number of panels.

        Returns:
            A figure of matplotlib, which may be drawn on.

        Raises:
            MatplotlibMissing: matplotlib is not installed.
            QueryStopped: The query has stopped. For the others see the class.
        """
        try:
            from spark_megaphone import _plot
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            raise MatplotlibMissing(
                "plot() draws with matplotlib, which is not installed; install it with "
                'pip install "spark-megaphone[plot]".'
            ) from None
        bins = self._door.ask("bins")
        steps = self._door.steps()
        progress = self._door.progress()
        batches = [] if progress else [row["last_batch"] for row in self._door.ask("workers")]
        newest = max((batch for batch in batches if batch is not None), default=None)
        history = _history.history(bins, steps, progress, newest)
        return _plot.draw(self._title(), history, figsize)

    @staticmethod
    def queries(spark: "SparkSession | None" = None) -> pa.Table:
        """The running queries of the application that have state in bins.

        With `query_id`, `run_id`, `name`, the numbers of `operators`, `workers`, `bins`, `keys` and
        `bytes`, the `last_batch` that was planned, and the id of the `open_plan`. A query appears
        once it has planned its first batch. Needs no handle.

        Args:
            spark: A session of the application; None for the one that runs in this process.

        Returns:
            A row for each query.

        Raises:
            QueryStopped: No session runs in this process.
            JarMissing: The session was started without the jar.
            PluginMissing: The session was started without the plugin.
            VersionMismatch: The session has the jar of another version than this package's.
        """
        return _application_table("queries", _tables.QUERIES, spark)

    @staticmethod
    def executors(spark: "SparkSession | None" = None) -> pa.Table:
        """What each executor keeps for all queries: `executor`, `workers`, `replicas`, `blocks`.

        With its `host`, its `state` (active, draining or leaving), its `cores`, how many workers
        are `placed` on it, their `live_bytes`, and how long, `busy_ms`, their tasks use the state
        in a batch; with its `standbys`, the workers that it stands by for with all of their state;
        with the heap `bytes` of state, the `budget` that they may take, and the `bytes_on_disk`
        that had no room. An executor reports every second, so the numbers may be that old. Needs no
        handle.

        Args:
            spark: As for the table of queries.

        Returns:
            A row for each living executor that has reported at least once.

        Raises:
            QueryStopped: No session runs in this process. For the others see `queries`.
        """
        return _application_table("executors", _tables.EXECUTORS, spark)

    @staticmethod
    def drain(
        executor: str | int,
        *,
        timeout: float | None = None,
        release: bool = False,
        spark: "SparkSession | None" = None,
    ) -> Drain:
        """Begins to empty an executor of the state of all queries of the application.

        Its workers go to other executors, once their state is there. The executor itself goes on,
        unless it is to be released. Called again, the drain goes on. A drain is kept in memory
        only: the next application has other executors.

        Args:
            executor: Its id, as `executors` shows it.
            timeout: Seconds after which workers leave at once, and what is left there is read from
                the checkpoint: from 0.001 to a year, through Spark Connect rounded up to whole
                ones. None for no limit. Called again with another, that one counts.
            release: Whether the executor is ended once it is empty, or has no time left. No other
                is started in its place: without dynamic allocation the application then wants no
                more executors than it has left, and with it this waits until Spark wants no more.
                Once asked for it stays so, until the drain is cancelled.
            spark: As for the table of queries.

        Returns:
            The drain; `Drain.wait` waits until the executor is empty.

        Raises:
            UnknownExecutor: The application has no such executor.
            LastExecutor: No other executor takes state.
            NoRelease: No executor can be ended alone: in local mode, and on Kubernetes if the
                cluster manager chooses which one goes.
            InvalidTimeout: `timeout` is out of range.
            WrongType: `executor` is no id, `timeout` no number, or `release` no bool.
            QueryStopped: No session runs in this process. For the others see `queries`.
        """
        name = _checks.executor_id(executor)
        limit_ms = _checks.timeout_ms(timeout)
        ends = _checks.boolean("release", release)
        application = _door.application(spark)
        return Drain(application, application.ask("drain", name, limit_ms, ends))

    @staticmethod
    def undrain(executor: str | int, *, spark: "SparkSession | None" = None) -> None:
        """Lets an executor keep its workers after all. Those that have left do not come back.

        What a batch has placed elsewhere already goes there.

        Args:
            executor: Its id.
            spark: As for the table of queries.

        Raises:
            UnknownDrain: It is not to be emptied, as when this is called again.
            DrainTooLate: Spark gives it no more tasks, and that cannot be taken back.
            WrongType: `executor` is no id.
            QueryStopped: No session runs in this process. For the others see `queries`.
        """
        _door.application(spark).ask("undrain", _checks.executor_id(executor))

    @staticmethod
    def request_executors(total: int, *, spark: "SparkSession | None" = None) -> int:
        """Asks the cluster manager for a number of executors in all; it starts them if it can.

        Returns at once. Called again, the newer number counts. Each executor that is released later
        makes it one less. What has come is used by `spread`, or with
        `spark.megaphone.placement.auto` by itself.

        Args:
            total: How many executors the application wants, with those that it has: at least as
                many as it has, for a request ends none.
            spark: As for the table of queries.

        Returns:
            How many executors take state now.

        Raises:
            NoRequest: Dynamic allocation decides, the application runs in local mode, or the
                cluster manager did not take the request.
            InvalidExecutors: `total` is less than there are, or above 10,000.
            WrongType: `total` is no whole number.
            QueryStopped: No session runs in this process. For the others see `queries`.
        """
        number = _checks.executors_count(total)
        answer = _door.application(spark).ask("requestExecutors", number)
        return int(answer["active"])

    @staticmethod
    def drains(spark: "SparkSession | None" = None) -> pa.Table:
        """The executors that were to be emptied, in the order in which that began.

        With `executor`, the `cause` (asked, or decommissioned by Spark), `status` (draining,
        drained, overdue, cordoned, released, lost or cancelled), the number of `workers` that are
        still to leave, the `seconds` since it began, the `reason` why it is not done, and whether
        it is to `release` the executor.

        Args:
            spark: As for the table of queries.

        Returns:
            A row for each.

        Raises:
            QueryStopped: No session runs in this process. For the others see `queries`.
        """
        return _application_table("drains", _tables.DRAINS, spark)

    def __repr__(self) -> str:
        try:
            workers = self.workers().to_pylist()
        except MegaphoneError as error:
            return f"Megaphone({self._title()}: {error.condition})"
        groups = sorted({row["operator"] for row in workers})
        state = "; ".join(
            f"operator {group}: {_total(workers, group, 'bins')} bins, "
            f"{_total(workers, group, 'keys')} keys "
            f"on {sum(row['operator'] == group for row in workers)} workers"
            for group in groups
        )
        return f"Megaphone({self._title()}: {state})"

    def _repr_html_(self) -> str:
        try:
            rows = self.workers().to_pylist()
            picture: str = self._door.ask("picture")["html"]
        except MegaphoneError as error:
            return _html.table(self._title(), [], [(error.condition, error)])
        table = _html.table(
            self._title(), _tables.WORKERS.names, [tuple(row.values()) for row in rows]
        )
        return table + picture

    def _title(self) -> str:
        return f"query {self._door.title}"

    def _submitted(
        self, verb: str, asked: object, strategy: str | None, mode: str | None, operator: int | None
    ) -> Plan:
        how = None if strategy is None else _checks.text("strategy", strategy)
        when = None if mode is None else _checks.text("mode", mode)
        return Plan(
            self._door, self._door.ask(verb, asked, how, when, _checks.operator_id(operator))
        )

    def _table(self, verb: str, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_pylist(self._door.ask(verb), schema=schema)


def _application_table(name: str, schema: pa.Schema, spark: "SparkSession | None") -> pa.Table:
    return pa.Table.from_pylist(_door.application(spark).ask(name), schema=schema)


def _total(rows: list[dict[str, Any]], group: int, column: str) -> int:
    return sum(row[column] for row in rows if row["operator"] == group)
