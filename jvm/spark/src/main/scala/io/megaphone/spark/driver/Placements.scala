// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import io.megaphone.errors.PlanRefusedException
import io.megaphone.placement.{Member, MemberState, Seat}
import io.megaphone.plan.Group
import io.megaphone.runtime.{Drain, Relocation}
import io.megaphone.spark.conf.PlacementConf

/** Takes whole workers to other executors, and empties executors. What is asked for is kept in
  * memory only: it is forgotten when the query, or the application, ends.
  *
  * Threads: any. Each verb may throw PlanRefusedException, after which nothing has changed.
  */
object Placements {
  private val TimeoutMaxMs = 365L * 24 * 3600 * 1000

  /** Evens the load of the executors out, by whole workers of a query. Returns the relocations that
    * have begun.
    *
    * @param tolerance
    *   how far from its part an executor's load may stay, as a fraction of the part; None for the
    *   configured one
    */
  def spread(query: QueryDriver, tolerance: Option[Double]): Vector[Relocation] = {
    val checked = tolerance.map(PlacementConf.checkedTolerance)
    query.state // says so if there is none yet
    query.spread(checked.getOrElse(PlacementConf.Tolerance.read(query.conf)))
  }

  /** Takes workers to executors that are named. Returns the relocations that have begun.
    *
    * @param wanted
    *   worker to executor
    * @param operator
    *   an operator of the workers' group; None if the query has one group
    */
  def place(
      query: QueryDriver,
      wanted: Vector[(Int, String)],
      operator: Option[Long]
  ): Vector[Relocation] = {
    val group = groupOf(query, operator)
    val workers = query.state.currentTable(group.id).workers
    val members = query.application.membership.members
    val seats = wanted.map { case (worker, executor) =>
      if (worker < 0 || worker >= workers) throw PlanRefusedException.unknownWorker(worker, workers)
      val found = memberOf(members, executor)
      if (found.state != MemberState.Active) throw PlanRefusedException.executorLeaving(executor)
      Seat(group.id, worker) -> executor
    }
    val begun = query.relocate(seats.toMap)
    if (begun.isEmpty) throw PlanRefusedException.alreadyThere
    begun
  }

  /** Ends relocations that no batch has taken. Of others nothing changes. */
  def cancel(query: QueryDriver, ids: Vector[Long]): Unit = {
    val known = query.footprint.relocations.iterator.map(_.id).toSet
    ids.find(id => !known(id)).foreach(id => throw PlanRefusedException.unknownRelocation(id))
    query.cancelRelocations(ids.toSet)
  }

  /** Begins to empty an executor of the state of all queries. Called again, it goes on.
    *
    * @param timeoutMs
    *   time after which what is left there is read from the checkpoint; None for no limit
    * @param release
    *   whether the executor is ended once it is empty, and no other is started in its place
    */
  def drain(
      application: ApplicationDriver,
      executor: String,
      timeoutMs: Option[Long],
      release: Boolean
  ): Drain = {
    timeoutMs.filter(ms => ms < 1 || ms > TimeoutMaxMs).foreach { ms =>
      throw PlanRefusedException.invalidTimeout(ms)
    }
    // One drain at a time: two could each count on the executor of the other.
    application.membership.synchronized {
      val members = application.membership.members
      val found = memberOf(members, executor)
      val isAnyOther = members.exists(m => m.id != executor && m.state == MemberState.Active)
      if (found.state == MemberState.Active && !isAnyOther)
        throw PlanRefusedException.lastExecutor(executor)
      application.membership.drain(executor, timeoutMs, release)
    }
  }

  /** Lets an executor keep its workers after all. */
  def undrain(application: ApplicationDriver, executor: String): Drain =
    application.membership.undrain(executor)

  /** Asks the cluster manager for so many executors in all. */
  def request(application: ApplicationDriver, total: Int): Executors = {
    application.membership.request(total)
    val active = application.membership.members.count(_.state == MemberState.Active)
    Executors(total, active)
  }

  /** @param asked
    *   how many executors were asked for in all
    * @param active
    *   how many take state
    */
  final case class Executors(asked: Int, active: Int)

  private def memberOf(members: Vector[Member], executor: String): Member = members
    .find(_.id == executor)
    .getOrElse(throw PlanRefusedException.unknownExecutor(executor, members.map(_.id)))

  private def groupOf(query: QueryDriver, operator: Option[Long]): Group = {
    val state = query.state
    def known = state.groups.flatMap(_.operators.map(_.id)).mkString(", ")
    operator match {
      case Some(id) => Plans.groupOf(state, id)
      case None if state.groups.size == 1 => state.groups.head
      case None =>
        throw PlanRefusedException.invalidArgument(
          "operator",
          s"is missing, and the query has the operators $known; name the one whose workers are " +
            "meant"
        )
    }
  }
}
