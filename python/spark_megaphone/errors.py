# SPDX-License-Identifier: Apache-2.0
"""Everything that can go wrong, by name: one class for each condition, one sentence for each error.

A message says what was wrong, what is allowed and what to do. `condition` is the stable name that
the JVM half uses for the same thing. Where nothing else is said, nothing has changed when an error
is raised.
"""
# ruff: noqa: N818 (the names say what happened, and the base class that they are errors)


class MegaphoneError(Exception):
    """Base of all errors of this package; raised itself if a condition has no class of its own."""

    condition: str = "UNCLASSIFIED"


class SetupError(MegaphoneError):
    """The session cannot run Megaphone: a jar, a setting or the kind of session is wrong."""


class JarMissing(SetupError):
    """The session was started without the plugin's jar, or the package was built without jars."""

    condition = "JAR_MISSING"


class NoJarForSpark(SetupError):
    """The package has no jar for the Spark version that runs."""

    condition = "NO_JAR_FOR_SPARK"


class VersionMismatch(SetupError):
    """The jar in the session and the Python package are of different versions."""

    condition = "VERSION_MISMATCH"


class PluginMissing(SetupError):
    """The session, or the server of Spark Connect, was started without the plugin."""

    condition = "PLUGIN_MISSING"


class SessionAlreadyRunning(SetupError):
    """A session without the plugin is already running, and `getOrCreate` would return that one."""

    condition = "SESSION_ALREADY_RUNNING"


class ConnectNotSupported(SetupError):
    """The session that is to be prepared is one of Spark Connect, which takes no plugin."""

    condition = "CONNECT_NOT_SUPPORTED"


class InvalidSetting(SetupError, ValueError):
    """A setting has an invalid value."""


class InvalidBins(InvalidSetting):
    """The number of bins is not a power of two in the allowed range."""

    condition = "BINS_NOT_POWER_OF_TWO"


class InvalidCheckpointFormat(InvalidSetting):
    """The checkpoint format version is neither 1 nor 2."""

    condition = "INVALID_CHECKPOINT_FORMAT"


class InvalidConfiguration(InvalidSetting):
    """A configuration key had an invalid value when it was read."""

    condition = "INVALID_CONFIGURATION"


class MatplotlibMissing(MegaphoneError, ImportError):
    """A picture is drawn with matplotlib, which is not installed."""

    condition = "MATPLOTLIB_MISSING"


class WrongType(MegaphoneError, TypeError):
    """An argument has the wrong type, for example a float for a whole number."""

    condition = "WRONG_TYPE"


class QueryError(MegaphoneError):
    """The query cannot do what is asked."""


class QueryStopped(QueryError):
    """The query or its session is no longer running.

    If the query failed, its exception is the cause.
    """

    condition = "QUERY_STOPPED"


class QueryNotStarted(QueryError):
    """The query has not planned a batch with state yet.

    Ask again after its first batch.
    """

    condition = "QUERY_NOT_STARTED"


class NoBinnedState(QueryError):
    """The query has no stateful operator, or its state is on another provider."""

    condition = "NO_BINNED_STATE"


class UnknownQuery(QueryError):
    """No running query has this name or id."""

    condition = "UNKNOWN_QUERY"


class AmbiguousQuery(QueryError):
    """More than one query is meant by what was given."""

    condition = "AMBIGUOUS_QUERY"


class PlanLogMismatch(QueryError):
    """The plan log and the state are of different times, so the state is not read."""

    condition = "PLAN_LOG_MISMATCH"


class DamagedRecords(QueryError):
    """Bytes that should be whole records of a log are not."""

    condition = "DAMAGED_RECORDS"


class SpillNotWritten(QueryError):
    """State that does not fit into memory could not be written to the executor's local disks."""

    condition = "SPILL_NOT_WRITTEN"


class InvalidPlan(MegaphoneError, ValueError):
    """What was asked to be moved cannot be moved so."""


class InvalidArgument(InvalidPlan):
    """An argument of a procedure is NULL, or is not of the kind that is needed."""

    condition = "INVALID_ARGUMENT"


class EmptyPlan(InvalidPlan):
    """The plan would change nothing."""

    condition = "EMPTY_PLAN"


class UnknownBin(InvalidPlan):
    """The query has no such bin."""

    condition = "UNKNOWN_BIN"


class UnknownWorker(InvalidPlan):
    """The query has no such worker."""

    condition = "UNKNOWN_WORKER"


class UnknownOperator(InvalidPlan):
    """The query has no such stateful operator."""

    condition = "UNKNOWN_OPERATOR"


class NotMovable(InvalidPlan):
    """The operator's state is in a single partition, and stays where it is."""

    condition = "NOT_MOVABLE"


class DuplicateBin(InvalidPlan):
    """A step moves the same bin twice."""

    condition = "DUPLICATE_BIN"


class InvalidWorkers(InvalidPlan):
    """The number of workers is out of range."""

    condition = "INVALID_WORKERS"


class NoWorkersLeft(InvalidPlan):
    """All workers are to be emptied, and none is left to take their bins."""

    condition = "NO_WORKERS_LEFT"


class WorkerNotEmpty(InvalidPlan):
    """A step removes a worker that still owns bins."""

    condition = "WORKER_NOT_EMPTY"


class UnknownStrategy(InvalidPlan):
    """There is no such strategy."""

    condition = "UNKNOWN_STRATEGY"


class InvalidBatchSize(InvalidPlan):
    """The number of bins per step of the strategy `batched` is out of range."""

    condition = "INVALID_BATCH_SIZE"


class UnknownMode(InvalidPlan):
    """There is no such transfer mode."""

    condition = "UNKNOWN_MODE"


class OverlappingPlan(InvalidPlan):
    """Another plan of the same operators is still open."""

    condition = "OVERLAPPING_PLAN"


class InvalidTolerance(InvalidPlan):
    """The tolerance is out of range."""

    condition = "INVALID_TOLERANCE"


class InvalidTimeout(InvalidPlan):
    """The time that a drain may take is out of range."""

    condition = "INVALID_TIMEOUT"


class InvalidExecutors(InvalidPlan):
    """The number of executors is out of range."""

    condition = "INVALID_EXECUTORS"


class LoadsNotKnown(InvalidPlan):
    """Not every worker has committed a batch since the query was started."""

    condition = "LOADS_NOT_KNOWN"


class UnknownExecutor(InvalidPlan):
    """The application has no such executor."""

    condition = "UNKNOWN_EXECUTOR"


class ExecutorLeaving(InvalidPlan):
    """The executor takes no state any more."""

    condition = "EXECUTOR_LEAVING"


class LastExecutor(InvalidPlan):
    """The executor is the last one that takes state, so it cannot be emptied."""

    condition = "LAST_EXECUTOR"


class NoReplicas(InvalidPlan):
    """No executors stand by for the query."""

    condition = "NO_REPLICAS"


class NoRelease(InvalidPlan):
    """The application has no executor that can be ended alone."""

    condition = "NO_RELEASE"


class NoRequest(InvalidPlan):
    """The application cannot ask for executors."""

    condition = "NO_REQUEST"


class DrainTooLate(InvalidPlan):
    """The executor gets no more tasks, so it cannot be kept any more."""

    condition = "DRAIN_TOO_LATE"


class RelocationError(MegaphoneError):
    """Something went wrong with workers, or executors, that were asked to go."""


class UnknownRelocation(RelocationError):
    """The run has no such relocation."""

    condition = "UNKNOWN_RELOCATION"


class UnknownDrain(RelocationError):
    """The executor is not one that is to be emptied."""

    condition = "UNKNOWN_DRAIN"


class RelocationTimeout(RelocationError, TimeoutError):
    """A worker was not there in time; it goes on."""

    condition = "RELOCATION_TIMEOUT"


class RelocationFailed(RelocationError):
    """A worker did not get to the executor that it was to go to."""

    condition = "RELOCATION_FAILED"


class DrainTimeout(RelocationError, TimeoutError):
    """The executor was not empty in time; its drain goes on."""

    condition = "DRAIN_TIMEOUT"


class DrainCancelled(RelocationError):
    """The executor is not to be emptied any more, or was lost before it was empty."""

    condition = "DRAIN_CANCELLED"


class PlanError(MegaphoneError):
    """A submitted plan did not come to its end, or is not known."""


class UnknownPlan(PlanError):
    """The query has no such plan.

    It may have ended so long ago that the plan log was trimmed.
    """

    condition = "UNKNOWN_PLAN"


class PlanTimeout(PlanError, TimeoutError):
    """The plan was not done in time; it goes on."""

    condition = "PLAN_TIMEOUT"


class PlanCancelled(PlanError):
    """The plan was cancelled; steps that had taken effect stay."""

    condition = "PLAN_CANCELLED"


class PlanFailed(PlanError):
    """The plan is over, and some of its moves were not made; those that were made stay."""

    condition = "PLAN_FAILED"


class PlanLogNotWritten(PlanError):
    """A record could not be written to the plan log, or it is unknown whether it was."""

    condition = "PLAN_LOG_NOT_WRITTEN"


def _by_condition(base: type[MegaphoneError]) -> dict[str, type[MegaphoneError]]:
    """The classes below a class, by the condition that each has of its own."""
    found: dict[str, type[MegaphoneError]] = {}
    for error in base.__subclasses__():
        if "condition" in vars(error):
            found[error.condition] = error
        found |= _by_condition(error)
    return found


_CLASSES = _by_condition(MegaphoneError)


def error_of(condition: str | None, message: str) -> MegaphoneError:
    """Makes the error of a condition.

    Args:
        condition: Its stable name; None where the JVM gave none.
        message: The sentence.

    Returns:
        An error of the condition's class, or a plain `MegaphoneError` that carries the condition.
    """
    known = _CLASSES.get(condition or "")
    if known is not None:
        return known(message)
    error = MegaphoneError(message)
    if condition is not None:
        error.condition = condition
    return error


def has_ended(run_id: str, failure: Exception | None) -> QueryStopped:
    """Makes the error of a query that does not run any more.

    Args:
        run_id: Its run id.
        failure: What it died of; None if it was stopped.

    Returns:
        The error, with one sentence of the failure: Spark adds plans and stacks below it.
    """
    if failure is None:
        return QueryStopped(
            f"The query with run id {run_id} is not running; start it, and create a new handle for "
            "it."
        )
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return QueryStopped(
        f"The query with run id {run_id} has failed: {lines[0].rstrip('. ')}. Mend that, start it, "
        "and create a new handle for it."
    )
