// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A plan, or a question about one, is refused. The message says in one sentence what was wrong,
  * what is allowed and what to do.
  */
final class PlanRefusedException private (override val condition: String, message: String)
    extends IllegalArgumentException(message)
    with MegaphoneError

object PlanRefusedException {
  def notStarted: PlanRefusedException =
    new PlanRefusedException(
      "QUERY_NOT_STARTED",
      "The query has not planned a batch with state yet, because it waits for data or for its " +
        "trigger, so there is nothing to move; ask again after its first batch."
    )
  def stopped(run: String): PlanRefusedException =
    new PlanRefusedException(
      "QUERY_STOPPED",
      s"The query with run id $run is not running; start it, and create a new handle for it."
    )
  def notBinned(run: String): PlanRefusedException = new PlanRefusedException(
    "NO_BINNED_STATE",
    s"The query with run id $run has no state on the binned state store: it has no stateful " +
      "operator, or has not run a batch yet; ask again after its first batch, or ask about a " +
      "query with state."
  )
  def onOtherProvider(run: String, provider: String): PlanRefusedException =
    new PlanRefusedException(
      "NO_BINNED_STATE",
      s"The query with run id $run keeps its state on $provider, from which it cannot be moved: " +
        "the checkpoint was started with that provider, or the configuration names it; to move " +
        "state, start the query from a new checkpoint with the binned state store."
    )
  def unknownQuery(what: String, running: Seq[String]): PlanRefusedException = {
    val known =
      if (running.isEmpty) "no query runs; start one first"
      else s"those that run are ${running.sorted.mkString(", ")}; name one of these"
    new PlanRefusedException("UNKNOWN_QUERY", s"No query $what: $known.")
  }
  def ambiguousQuery(what: String, found: Seq[String]): PlanRefusedException =
    new PlanRefusedException(
      "AMBIGUOUS_QUERY",
      s"More than one query $what: ${found.sorted.mkString(", ")}; name one, by its name, its id " +
        "or its run id."
    )
  def invalidArgument(name: String, problem: String): PlanRefusedException =
    new PlanRefusedException("INVALID_ARGUMENT", s"The argument $name $problem.")
  def unknownPlan(id: String): PlanRefusedException = new PlanRefusedException(
    "UNKNOWN_PLAN",
    s"The query has no plan $id; plans() lists those it has."
  )
  def unknownOperator(operator: Long, known: Seq[Long]): PlanRefusedException =
    new PlanRefusedException(
      "UNKNOWN_OPERATOR",
      s"The query has no stateful operator $operator, only ${known.mkString(", ")}; name one of " +
        "these, or none for all."
    )
  def notMovable(operator: Long): PlanRefusedException = new PlanRefusedException(
    "NOT_MOVABLE",
    s"The state of operator $operator is in a single partition, as that of a global aggregate or " +
      "a limit is, and cannot be moved; name another operator."
  )
  def noReplicas(mode: String): PlanRefusedException = new PlanRefusedException(
    "NO_REPLICAS",
    s"Mode $mode needs executors that stand by, but spark.megaphone.replicas was 0 when the " +
      "query was started; start it with 1 or more, or choose mode prepared or direct."
  )
  def overlapping(id: String, reason: String): PlanRefusedException =
    new PlanRefusedException(
      "OVERLAPPING_PLAN",
      s"Plan $id is still open and $reason; wait for it, or cancel it first."
    )
  def nothingToDo: PlanRefusedException = new PlanRefusedException(
    "EMPTY_PLAN",
    "The plan would move nothing: every bin is already where it is wanted; ask for another " +
      "number of workers or other bins."
  )
  def alreadyEven: PlanRefusedException = new PlanRefusedException(
    "EMPTY_PLAN",
    "No worker would move: the load of the executors is as even as whole workers can make it; " +
      "rescale to more workers, or move bins, if that is not even enough."
  )
  def evenAsRoomAllows: PlanRefusedException = new PlanRefusedException(
    "EMPTY_PLAN",
    "No worker would move: executors with less load had no room for workers lately, as " +
      "relocations() says; give them more memory, or name an executor with place()."
  )
  def loadsNotKnown: PlanRefusedException = new PlanRefusedException(
    "LOADS_NOT_KNOWN",
    "The load of the executors is not known yet, because not every worker has committed a batch " +
      "since the query was started; ask again after the next batch."
  )
  def alreadyThere: PlanRefusedException = new PlanRefusedException(
    "EMPTY_PLAN",
    "No worker would move: each is where it is wanted, or on its way there; name another executor."
  )
  def unknownExecutor(id: String, known: Seq[String]): PlanRefusedException =
    new PlanRefusedException(
      "UNKNOWN_EXECUTOR",
      if (known.isEmpty)
        s"There is no executor '$id', for none has come yet; ask again once executors() shows some."
      else
        s"There is no executor '$id', only ${known.mkString(", ")}; name one that executors() " +
          "shows."
    )
  def executorLeaving(id: String): PlanRefusedException = new PlanRefusedException(
    "EXECUTOR_LEAVING",
    s"Executor $id is to be emptied, or gets no tasks any more, so it takes no state; name another."
  )
  def lastExecutor(id: String): PlanRefusedException = new PlanRefusedException(
    "LAST_EXECUTOR",
    s"Executor $id is the last one that takes state; start another before this one is emptied."
  )
  def invalidTimeout(ms: Long): PlanRefusedException = new PlanRefusedException(
    "INVALID_TIMEOUT",
    s"The timeout is ${ms / 1000.0} s, but it must be from 0.001 s to a year; give one in that " +
      "range, or none."
  )
  def notDraining(id: String): PlanRefusedException = new PlanRefusedException(
    "UNKNOWN_DRAIN",
    s"Executor $id is not to be emptied: drains() shows none for it that is under way."
  )
  def drainTooLate(id: String): PlanRefusedException = new PlanRefusedException(
    "DRAIN_TOO_LATE",
    s"Spark gives executor $id no more tasks, and that cannot be taken back; wait for another " +
      "executor, or start one."
  )
  def cannotRelease: PlanRefusedException = new PlanRefusedException(
    "NO_RELEASE",
    "The application runs in one process, or its cluster manager chooses itself which executor " +
      "it ends, so this one cannot be ended alone; drain it without release."
  )
  def requestedByDynamicAllocation: PlanRefusedException = noRequest(
    "Spark's dynamic allocation decides how many executors the application has; set its " +
      "spark.dynamicAllocation.minExecutors, or switch it off."
  )
  def requestedInOneProcess: PlanRefusedException = noRequest(
    "The application runs in one process, so it has no executors to ask for; start it on a cluster."
  )
  def requestNotTaken(total: Int): PlanRefusedException = noRequest(
    s"The cluster manager did not take the request for $total executors; see the driver's log, " +
      "and ask again."
  )
  private def noRequest(message: String) = new PlanRefusedException("NO_REQUEST", message)

  def invalidExecutors(asked: Int, least: Int, most: Int): PlanRefusedException =
    new PlanRefusedException(
      "INVALID_EXECUTORS",
      s"The number of executors is $asked, but it must be from $least, as many as there are, to " +
        s"$most; ask for one in that range, or drain an executor with release to have fewer."
    )
  def unknownWorker(worker: Int, workers: Int): PlanRefusedException = new PlanRefusedException(
    "UNKNOWN_WORKER",
    s"There is no worker $worker, only workers 0 to ${workers - 1}; name one of these."
  )
  def unknownRelocation(id: Long): PlanRefusedException = new PlanRefusedException(
    "UNKNOWN_RELOCATION",
    s"The run has no relocation $id, or it ended long ago; relocations() lists those it has."
  )
  def invalidTolerance(asked: Double): PlanRefusedException = new PlanRefusedException(
    "INVALID_TOLERANCE",
    s"The tolerance is $asked, but it must be from 0.01 to 1; give one in that range."
  )
}
