// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.{ExecutorAddress, WorkerId}
import io.megaphone.protocol.{Duties, Protocol}
import io.megaphone.transfer.{ReplicaDuty, StandbyDuty}

/** What each executor is to do for a run: the replicas to have ready, the standbys to keep, and to
  * whom it sends the files of its workers. Executors ask ten times a second, and there may be
  * thousands of duties: they are computed once for a decision, a view of the cluster, and the
  * standbys that are wished.
  *
  * Threads: any, at any time.
  *
  * @param state
  *   the protocol's newest state; None before the first batch
  */
private[runtime] final class DutyRoster(
    state: () => Option[Protocol.State],
    places: WorkerPlaces,
    loads: WorkerLoads
) {
  import DutyRoster._
  import places.{beside, observed}

  @volatile private var newest = Option.empty[Roster]

  def replicasOf(executor: String): Vector[ReplicaDuty] =
    current.flatMap(_.replicas.get(executor)).getOrElse(Vector.empty)

  def standbysOf(executor: String): Vector[StandbyDuty] =
    current.flatMap(_.standbys.get(executor)).getOrElse(Vector.empty)

  /** The workers of an executor that others stand by for, and those others. */
  def pushesOf(executor: String): Map[WorkerId, Vector[ExecutorAddress]] =
    current.flatMap(_.pushes.get(executor)).getOrElse(Map.empty)

  private def current: Option[Roster] = state().map { now =>
    val basis =
      Basis(now.decision, observed.cluster, beside.relocating, beside.standbys, loads.known)
    newest.filter(_.basis.isSame(basis)).getOrElse {
      val made = rosterOf(now, basis)
      newest = Some(made)
      made
    }
  }

  private def rosterOf(now: Protocol.State, basis: Basis): Roster = {
    val standbys = Duties.standbys(now, basis.relocating, basis.standbys, loads.liveBytes)
    val pushes = for {
      (executor, duty) <- standbys
      id = duty.worker
      to <- basis.cluster.peer(executor)
      from <- observed.executorOf(id.store.id.operator, id.worker)
      if from != executor
    } yield (from, id, to)
    Roster(
      basis,
      Duties(now, basis.cluster.peer, loads.liveBytes).groupMap(_._1)(_._2),
      standbys.groupMap(_._1)(_._2),
      pushes.groupBy(_._1).map { case (from, some) => from -> some.groupMap(_._2)(_._3) }
    )
  }
}

private object DutyRoster {

  /** What duties follow from.
    *
    * @param relocating
    *   by group: where each worker is on its way to
    * @param standbys
    *   by group: who is to stand by for each worker
    * @param knownLoads
    *   of how many states the size is known
    */
  private final case class Basis(
      decision: Option[Protocol.Decision],
      cluster: ClusterView,
      relocating: Map[Long, Vector[Vector[String]]],
      standbys: Map[Long, Vector[Vector[String]]],
      knownLoads: Int
  ) {

    /** Whether nothing has changed. Compares references: an equal decision may be megabytes. */
    def isSame(other: Basis): Boolean = (cluster eq other.cluster) &&
      (relocating eq other.relocating) && (standbys eq other.standbys) &&
      knownLoads == other.knownLoads &&
      decision.exists(d => other.decision.exists(_ eq d))
  }

  /** The duties that follow from it, by executor. */
  private final case class Roster(
      basis: Basis,
      replicas: Map[String, Vector[ReplicaDuty]],
      standbys: Map[String, Vector[StandbyDuty]],
      pushes: Map[String, Map[WorkerId, Vector[ExecutorAddress]]]
  )
}
