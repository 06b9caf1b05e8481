// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.{MemberState, Seat}
import io.megaphone.runtime.ReportedStandbys.StuckBatches

/** The relocations of a run, with those that ended last.
  *
  *   1. `begin` begins relocations that are to be taken once their standby is there. `leave` begins
  *      those of workers whose executors get no more tasks: they are taken at once.
  *   1. `take` takes those whose standby has all of the worker's state.
  *   1. `end` ends those that have arrived, or cannot go on: see there for each reason.
  *
  * Threads: one at a time. `all`, `open` and `targets` may be called by any thread at any time.
  *
  * @param endedMax
  *   how many that have ended are kept
  */
private[runtime] final class Relocations(observed: Observed, endedMax: Int = 1000) {
  import Relocations._
  import observed.{cluster, reported, runs}

  private var lastId = 0L
  private var untold = Vector.empty[Relocation] // that have ended
  @volatile private var known = Vector.empty[Relocation]

  /** In the order in which they began. */
  def all: Vector[Relocation] = known
  def open: Vector[Relocation] = known.filter(_.isOpen)

  /** Where each worker is to go that is under way. */
  def targets: Map[Seat, String] = open.iterator.map(r => r.seat -> r.to).toMap

  /** Begins relocations of workers that are elsewhere, and are not on their way there. Returns
    * them. One to an executor that could not take the worker just now is not begun, but by a user's
    * wish.
    *
    * @param targets
    *   where each worker is to go
    * @param places
    *   where each worker is
    */
  def begin(
      scene: Scene,
      targets: Map[Seat, String],
      places: Map[Seat, String],
      why: Relocation.Why
  ): Vector[Relocation] = {
    val under = this.targets
    val drained =
      cluster.members.iterator.filter(_.state == MemberState.Draining).map(_.id).toSet
    def mayTry(seat: Seat, to: String) = why == Relocation.Asked ||
      observed.stateOn(scene, seat).contains(to) || !observed.hasJustRefused(scene, seat, to)
    add(
      for {
        (seat, to) <- targets.toVector.sortBy(_._1)
        from <- places.get(seat).toVector
        if to != from && !under.get(seat).contains(to) && mayTry(seat, to)
        isForced = drained(from) && why == Relocation.Spread
      } yield Relocation(0, seat, from, to, if (isForced) Relocation.Drain else why, scene.batch)
    )
  }

  /** Workers whose executors get no more tasks go elsewhere with the next batch. */
  def leave(scene: Scene, places: Map[Seat, String]): Unit = {
    val under = targets
    add(
      for {
        (seat, to) <- places.toVector.sortBy(_._1)
        from <- observed.executorOf(seat).toVector
        if cluster.get(from).isDefined && !cluster.runs(from) && !under.get(seat).contains(to)
      } yield Relocation(
        0,
        seat,
        from,
        to,
        Relocation.Drain,
        scene.batch,
        taken = Some(scene.batch)
      )
    )
    ()
  }

  /** Takes the relocations whose standbys are there, each once no step of a plan goes first. Such a
    * step is not waited for without end: plans may have many. An executor that has not run workers
    * of the query for some batches gets its lightest one first: its first tasks take long, whatever
    * they do. Returns where the workers go.
    */
  def take(scene: Scene, settings: PlacementSettings): Map[Seat, String] = {
    def isBusy(r: Relocation) =
      scene.batch - r.since <= settings.patienceBatches && scene.isBusy(r.seat)
    def isWarm(executor: String) = settings.pilotBatches == 0 ||
      runs.firstOn(executor).exists(_ + settings.pilotBatches <= scene.batch)
    val open = this.open
    val ready = open.filter { r =>
      r.isMaking && !isBusy(r) &&
      reported
        .versionOn(scene.groupOf(r.seat), r.seat.worker, r.to)
        .exists(_ >= scene.batch - 2)
    }
    val isAwaited = open.iterator.filter(_.taken.isDefined).map(_.to).toSet
    val taken = ready.groupBy(_.to).iterator.flatMap { case (to, some) =>
      if (isWarm(to)) some
      else if (isAwaited(to) || runs.firstOn(to).isDefined) Vector.empty
      else Vector(some.minBy(r => (scene.seats(r.seat).bytes, r.seat)))
    }
    val ids = taken.map(r => r.id -> r).toMap
    change(r => if (ids.contains(r.id)) r.copy(taken = Some(scene.batch)) else r)
    ids.valuesIterator.map(r => r.seat -> r.to).toMap
  }

  /** Ends those that have arrived, that nothing asks for any more, and that cannot go on. Returns
    * them.
    */
  def end(scene: Scene): Vector[Relocation] = change { r =>
    def failed(reason: String) = r.copy(end = Some(Relocation.Failed(reason)))
    def hasRun = scene.groupOf(r.seat).operators.forall { operator =>
      runs.hasRun(operator.id, r.seat.worker, r.to, r.taken.getOrElse(r.since + 1))
    }
    def isStuck =
      scene.batch >= StuckBatches + math.max(r.since, reported.progressedAt(r.to))
    def isKept = cluster.members.exists(m => m.id == r.from && m.state == MemberState.Active)
    if (!scene.seats.contains(r.seat)) failed("The query has no such worker any more.")
    else if (hasRun) r.copy(end = Some(Relocation.Done))
    else if (!cluster.open(r.to)) failed(s"Executor ${r.to} gets no workers any more.")
    else if (r.isMaking && !cluster.runs(r.from))
      failed(s"Executor ${r.from} runs no tasks any more.")
    else if (r.isMaking && r.why == Relocation.Drain && isKept)
      r.cancelled
    else if (r.taken.exists(_ + ArrivalBatches < scene.batch))
      failed(s"Spark ran the worker's tasks elsewhere for $ArrivalBatches batches.")
    else if (r.isMaking && reported.refusedAt(r.seat, r.to) >= r.since)
      failed(s"Executor ${r.to} has no room for the worker's state.")
    else if (r.isMaking && isStuck) {
      reported.refuses(r.to, r.seat, scene.batch)
      failed(
        s"Executor ${r.to} has copied nothing for $StuckBatches batches; its log says why."
      )
    } else r
  }

  /** Ends those that no batch has taken. */
  def cancel(isUnwanted: Relocation => Boolean): Unit = {
    change(r => if (r.isMaking && isUnwanted(r)) r.cancelled else r)
    ()
  }

  /** Adds some, and gives them their ids. Those of the same workers that are under way are
    * cancelled.
    */
  private def add(some: Vector[Relocation]): Vector[Relocation] = {
    val seats = some.iterator.map(_.seat).toSet
    if (seats.nonEmpty)
      change(r => if (seats(r.seat)) r.cancelled else r)
    val begun = some.map { r => lastId += 1; r.copy(id = lastId) }
    known ++= begun
    begun
  }

  /** Changes those that are under way. Returns those that have ended. */
  private def change(of: Relocation => Relocation): Vector[Relocation] = {
    val changed = known.map(r => if (r.isOpen) of(r) else r)
    val ended = known.zip(changed).collect { case (r, now) if r.isOpen && !now.isOpen => now }
    untold ++= ended
    val tooMany = changed.count(!_.isOpen) - endedMax
    val dropped = changed.iterator.filter(!_.isOpen).take(tooMany).map(_.id).toSet
    known = changed.filterNot(r => dropped(r.id))
    ended
  }

  /** Those that have ended since this was asked last. */
  def takeEnded(): Vector[Relocation] = {
    val ended = untold
    untold = Vector.empty
    ended
  }
}

private[runtime] object Relocations {

  /** Batches after which a worker whose tasks run elsewhere is not sent to its place any more. */
  val ArrivalBatches = 5L
}
