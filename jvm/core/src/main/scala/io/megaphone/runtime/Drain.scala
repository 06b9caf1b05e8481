// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

/** An executor's way out, of the state of all queries.
  *
  * @param workers
  *   workers that are still to leave, of all queries
  * @param reason
  *   what it waits for, in a sentence; None if it waits for nothing
  * @param release
  *   whether the executor is ended once it is empty
  */
final case class Drain(
    executor: String,
    cause: Drain.Cause,
    status: Drain.Status,
    workers: Int,
    seconds: Long,
    reason: Option[String],
    release: Boolean
)

object Drain {

  /** Why an executor is to be emptied. */
  sealed abstract class Cause(val name: String)

  /** A user asks for it. */
  case object Asked extends Cause("asked")

  /** Spark says that it goes, and gives it no more tasks. */
  case object Decommissioned extends Cause("decommissioned")

  sealed abstract class Status(val name: String)

  /** State is still there that somebody needs. */
  case object Draining extends Status("draining")

  /** Nobody needs anything that is there: it may go. */
  case object Drained extends Status("drained")

  /** Its time was up: what was left is read from the checkpoint. */
  case object Overdue extends Status("overdue")

  /** Nobody needs anything that is there, and Spark gives it no more tasks: it is about to end. */
  case object Cordoned extends Status("cordoned")

  /** It was ended. */
  case object Released extends Status("released")

  /** The executor died before it was empty: what was left is read from the checkpoint. */
  case object Lost extends Status("lost")

  /** It keeps its workers. */
  case object Cancelled extends Status("cancelled")

  /** What an executor still has of a query.
    *
    * @param name
    *   how the query is called
    * @param workers
    *   workers that are placed there, or ran there last
    * @param isIdle
    *   whether the query runs no batch, and has not planned one for a while
    * @param areElsewhere
    *   whether other executors have all state of these workers
    * @param standbysLacking
    *   workers that have fewer standbys elsewhere than they should, and a standby here
    * @param states
    *   workers whose state the executor keeps
    * @param exports
    *   what steps on demand have taken from workers there, and others lack yet
    * @param withoutRoom
    *   the executors that could not take some of these workers, or stand by for them, not long ago
    * @param strayed
    *   those of the workers that Spark has run here although they were placed on another executor,
    *   which has all of their state: that one has had no free core
    */
  final case class OfQuery(
      name: String,
      workers: Int,
      isIdle: Boolean,
      areElsewhere: Boolean,
      standbysLacking: Int,
      states: Int,
      exports: Int = 0,
      withoutRoom: Vector[String] = Vector.empty,
      strayed: Int = 0
  ) {

    /** Workers that are still to leave. Those of an idle query leave with its next batch: it is
      * enough that their state is elsewhere.
      */
    def toLeave: Int = if (isIdle && areElsewhere) 0 else workers

    /** Whether nothing is to happen but that Spark runs its workers where they are placed. */
    def hasOnlyStrayed: Boolean =
      toLeave <= strayed && standbysLacking == 0 && exports == 0

    /** Of an idle query, states stay until its next batch. */
    def statesInUse: Int = if (isIdle && areElsewhere) 0 else states
  }

  /** What an executor has, as it reported.
    *
    * @param obeyed
    *   the number of the orders that the report was made after
    */
  final case class OfExecutor(
      queries: Vector[OfQuery],
      replicas: Int,
      blocks: Int,
      obeyed: Long
  )

  object OfExecutor {

    /** What an executor has by its last report, if there is one. */
    def of(report: Option[Report], queries: Vector[OfQuery]): OfExecutor =
      OfExecutor(
        queries,
        report.fold(0)(_.held.replicas),
        report.fold(0)(_.held.blocks),
        report.fold(0L)(_.obeyed)
      )
  }
}
