// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.{Load, Seat}
import io.megaphone.plan.Group
import io.megaphone.protocol.{Protocol, Route}

/** Makes the [[Scene]]s of a run: what placement is to know of its steps and loads follows from the
  * protocol's state and from what commits told.
  *
  * Threads: one at a time, as of its [[QueryRun]].
  *
  * @param state
  *   the protocol's newest state; throws PlanRefusedException before the run begins
  */
private[runtime] final class Scenes(state: () => Protocol.State, loads: WorkerLoads) {

  /** @param groups
    *   those that are placed
    * @param batch
    *   the one that is planned, or was planned last
    */
  def at(batch: Long, groups: Vector[Group], mayTake: Boolean = false): Scene = {
    val now = state()
    def workersOf(group: Group) = 0 until now.currentTable(group.id).workers
    lazy val announced = for {
      step <- now.announced
      table = now.currentTable(step.id.group)
      move <- step.step.moves
      worker <- Seq(table.workerOf(move.bin), move.target)
    } yield Seat(step.id.group, worker)
    lazy val busy = announced.toSet ++ broughtBins(batch - 2 to batch).keySet
    lazy val incomplete = (for {
      decision <- now.decision.iterator
      (group, bins) <- decision.incomplete
      bin <- bins
    } yield Seat(group, decision.after(group).workerOf(bin))).toSet
    lazy val areWarm = groups.forall(group => workersOf(group).forall(loads.isWarm(group, _)))
    Scene(
      batch,
      groups.map(g => g -> workersMax(g)),
      seat => {
        val load = loads.loadOf(now.group(seat.group), seat.worker)
        if (areWarm) load else load.copy(busyMs = Load.NotKnown)
      },
      seat => {
        val table = now.currentTable(seat.group)
        if (seat.worker < table.workers) table.binsOf(seat.worker).size else 0
      },
      seat => busy(seat),
      seat => incomplete(seat),
      reliedOn(now, batch),
      mayTake,
      () => groups.forall(g => workersOf(g).forall(loads.of(g, _).isDefined))
    )
  }

  /** The most workers that a group has, or that an open plan will give it. Those that the batch
    * under way does away with are among them: others may take their bins from their standbys.
    */
  def workersMax(group: Group): Int = {
    val now = state()
    val planned = now.history.open.iterator.flatMap(_.workersMax.get(group.id))
    val before = now.decision.flatMap(_.before.get(group.id)).map(_.workers)
    (planned ++ before ++ Iterator(now.currentTable(group.id).workers)).max
  }

  /** The workers that steps of these batches have brought bins, each with the newest such batch: a
    * standby of the version that this batch read lacks them.
    */
  def broughtBins(batches: Iterable[Long]): Map[Seat, Long] = (for {
    batch <- batches.toVector.sorted
    seal <- state().history.sealAt(batch).toVector
    (group, worker) <- seal.gaining
  } yield Seat(group, worker) -> batch).toMap

  private def reliedOn(now: Protocol.State, batch: Long): Seat => Set[String] = {
    lazy val underWay = now.decision.filter(_.batch.number == batch)
    lazy val takers = (for {
      decision <- now.decision.toVector
      (steps, tables) <- Seq(
        decision.announced -> decision.after,
        underWay.toVector.flatMap(_.sealedSteps) -> decision.before
      )
      step <- steps
      route <- Route.between(step.step, tables(step.id.group))
      executor <- decision.batch.executorsOf(step.id.group).lift(route.target)
    } yield Seat(step.id.group, route.source) -> executor).groupMap(_._1)(_._2)
    seat =>
      takers.getOrElse(seat, Vector.empty).toSet ++
        underWay.flatMap(_.batch.executorsOf(seat.group).lift(seat.worker))
  }
}
