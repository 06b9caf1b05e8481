// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.{Seat, Standbys}
import io.megaphone.plan.Group

/** Who is to have a worker's state beside the worker's own executor: the standbys that are asked
  * for, those that stay for now because something relies on them, and the targets of relocations.
  *
  * ''A standby is not whole for long:'' another executor is asked, and `warn` is told.
  *
  * Threads: one at a time. `standbys`, `standbysOf`, `standbysOn`, `relocating`, `of` and `having`
  * may be called by any thread at any time.
  *
  * @param where
  *   where the workers are wanted
  */
private[runtime] final class StandbyPlaces(
    observed: Observed,
    where: Wishes,
    moving: Relocations,
    warn: String => Unit
) {
  import observed.{cluster, hasJustRefused, reported}

  @volatile private var assigned = Map.empty[Long, Vector[Vector[String]]] // who should stand by
  @volatile private var wanted = Map.empty[Long, Vector[Vector[String]]] // and who stays
  @volatile private var targets = Map.empty[Long, Vector[Vector[String]]] // of relocations

  /** By group: the executors that are to stand by for each worker. Another map if that changes. */
  def standbys: Map[Long, Vector[Vector[String]]] = wanted

  /** The executors that are to stand by for each worker of a group. */
  def standbysOf(group: Long): Vector[Vector[String]] = standbys.getOrElse(group, Vector.empty)

  /** The workers that an executor is to stand by for, or, if `isForGood`, should go on standing by
    * for: some standbys stay only until a batch is over.
    */
  def standbysOn(executor: String, isForGood: Boolean): Vector[Seat] = for {
    (group, workers) <- (if (isForGood) assigned else standbys).toVector
    (executors, worker) <- workers.zipWithIndex if executors.contains(executor)
  } yield Seat(group, worker)

  /** By group: where each worker is on its way to, if it is. Another map if that changes. */
  def relocating: Map[Long, Vector[Vector[String]]] = targets

  /** The executors that are to have a worker's state: that which is to take it over, and those that
    * stand by.
    */
  def of(seat: Seat): Vector[String] =
    Vector(relocating, standbys).flatMap(_.get(seat.group)).flatMap(_.lift(seat.worker)).flatten

  /** By group: those of them that have all of a worker's state, of the least version wanted or a
    * later one. Nothing where nobody does.
    */
  def having(groups: Vector[Group], leastOf: Seat => Long): Map[Long, Vector[Set[String]]] = (for {
    group <- groups
    workers = Vector(relocating, standbys).flatMap(_.get(group.id)).map(_.size)
    if workers.nonEmpty
  } yield group.id -> Vector.tabulate(workers.max) { worker =>
    val seat = Seat(group.id, worker)
    val least = leastOf(seat)
    of(seat).filter(reported.versionOn(group, worker, _).exists(_ >= least)).toSet
  }).toMap

  /** Tells of those that are asked for, in a batch. */
  def noteAsked(scene: Scene): Unit = for ((group, workers) <- scene.groups) {
    val asked = for (w <- 0 until workers; e <- of(Seat(group.id, w))) yield (w, e)
    reported.asked(group, asked.toSet, scene.batch)
  }

  /** Chooses standbys for a group whose workers are wanted elsewhere now, or may be.
    *
    * @param before
    *   where they were wanted before: their state is there
    */
  def choose(scene: Scene, group: Group, before: Vector[String], replicas: Int): Unit = {
    val known = standbysOf(group.id)
    giveUpStuck(scene, group, known)
    val chosen = Standbys.assign(
      where.of(group.id),
      w => known.lift(w).toSeq.flatten ++ before.lift(w),
      cluster.members,
      replicas,
      reported.isWhole(group, _, _),
      w => reported.refusals(Seat(group.id, w)).keySet,
      (w, e) => hasJustRefused(scene, Seat(group.id, w), e),
      w => scene.seats.get(Seat(group.id, w)).fold(0L)(_.bytes)
    )
    assigned = assigned.updated(group.id, chosen)
  }

  /** Takes note of the relocations that are under way, and of the standbys that stay. */
  def note(scene: Scene): Unit = {
    val to = moving.targets
    // First those that stay, for the state of what was to be relocated may be relied on.
    noteStandbys(scene, to)
    val now =
      if (to.isEmpty) Map.empty[Long, Vector[Vector[String]]]
      else
        scene.groups.map { case (group, workers) =>
          group.id -> Vector.tabulate(workers)(w => to.get(Seat(group.id, w)).toVector)
        }.toMap
    if (now != targets) targets = now
  }

  private def noteStandbys(scene: Scene, to: Map[Seat, String]): Unit =
    for ((group, workers) <- scene.groups) {
      val chosen = Vector.tabulate(workers) { w =>
        val seat = Seat(group.id, w)
        val some = assigned.get(group.id).flatMap(_.lift(w)).getOrElse(Vector.empty)
        some ++ staying(scene, seat).filterNot(e => some.contains(e) || to.get(seat).contains(e))
      }
      if (chosen.forall(_.isEmpty)) wanted -= group.id
      else if (chosen != standbysOf(group.id)) wanted = wanted.updated(group.id, chosen)
    }

  /** Who has a worker's state, and keeps it for now, whoever else is to have it: something relies
    * on it there.
    */
  private def staying(scene: Scene, seat: Seat): Vector[String] = {
    val sent = where.sentTo(seat)
    def isHome(executor: String) =
      observed.executorOf(seat).contains(executor) && where.of(seat).contains(executor)
    of(seat).distinct.filter { executor =>
      cluster.get(executor).isDefined && !isHome(executor) &&
      (sent.contains(executor) || scene.reliesOn(seat)(executor))
    }
  }

  /** An executor whose standby is not whole for long counts as one that has no room for it. A
    * relocation has a patience of its own.
    */
  private def giveUpStuck(scene: Scene, group: Group, standbys: Vector[Vector[String]]): Unit = {
    val under = moving.targets
    for {
      (executors, worker) <- standbys.zipWithIndex
      seat = Seat(group.id, worker)
      executor <- executors
      if reported.isStuck(group, worker, executor, scene.batch)
      if !under.get(seat).contains(executor) && !hasJustRefused(scene, seat, executor)
    } {
      if (!reported.refusals(seat).contains(executor))
        warn(
          s"Executor $executor does not come to stand by for worker $worker of operator " +
            s"${group.id} with all of its state: it falls behind, or begins again and again; its " +
            "log says why. Another executor is asked, if there is one. If the worker's executor " +
            "is lost before, its state is read from the checkpoint."
        )
      reported.refuses(executor, seat, scene.batch)
    }
  }
}
