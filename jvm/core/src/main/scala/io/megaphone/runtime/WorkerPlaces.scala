// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.{Load, Placement, Request, Seat}

/** Where a run's workers are placed, who stands by for them, and which of them are on their way
  * elsewhere. A group's workers are placed as one: all its operators run in the same tasks. It is
  * kept in memory only: a place is a wish, and the next run has other executors.
  *
  * When a batch is planned:
  *   1. Relocations that arrived, or cannot go on, end.
  *   1. Workers are placed (see [[io.megaphone.placement.Placement]]). One that is to go elsewhere
  *      begins a relocation: its target stands by for it. One whose executor gets no more tasks
  *      goes at once, whatever its target has: until its next batch, the target stands by for it.
  *   1. A relocation whose standby has all of the worker's state is taken: the worker is placed
  *      there. ''The task runs elsewhere:'' it opens what it finds there, and the worker is placed
  *      on the target again, for some batches. ''The target is lost:'' the worker stays.
  *   1. Standbys are chosen.
  *
  * ''Spark runs a task elsewhere than its worker is placed:'' the worker is placed there again for
  * some batches, because its state is there but for the newest tails. After that it stays.
  *
  * Threads: one at a time. `losses`, `loads`, `hasStandbys` and `isSettling` may be called by any
  * thread at any time; the parts say so themselves.
  */
private[runtime] final class WorkerPlaces(warn: String => Unit) {
  import WorkerPlaces._

  /** What is seen of the executors and workers. */
  val observed = new Observed

  /** Where the workers are wanted. */
  val wishes = new Wishes(observed)

  /** Those that are on their way elsewhere. */
  val moving = new Relocations(observed)

  /** Who stands by for them. */
  val beside = new StandbyPlaces(observed, wishes, moving, warn)

  import observed.{cluster, executorOf, reported}

  @volatile private var settings = PlacementSettings()
  private var openSince = -1L // the batch at which the executors that may get workers changed
  @volatile private var isSpread = false // since then
  private var isPartlySpread = false // since then, without workers that were on their way
  private var spreadAgainAt = Option.empty[Long] // the batch, if some did not get there
  private var areLoadsTold = false // those of all workers, to other queries
  private var lost = Vector.empty[String] // executors whose workers have no other place yet
  private val lossesKnown = new Losses
  @volatile private var placedLoads = Map.empty[String, Load]

  /** Sets how workers are placed, before the first are. */
  def configure(how: PlacementSettings): Unit = settings = how

  /** Takes a newer view of the cluster, before a batch is planned or while it runs. Returns the
    * executors that are gone.
    */
  def see(now: ClusterView, batch: Long): Vector[String] = {
    val openBefore = cluster.open
    val gone = observed.see(now, batch)
    wishes.forget(gone)
    lost ++= gone
    if (now.open != openBefore) {
      openSince = batch
      isSpread = false
      isPartlySpread = false
      spreadAgainAt = None
    }
    gone
  }

  /** An executor reports how far its standbys are, and the workers that it has no room for, while a
    * batch is under way. One that has no room is not asked again for some time, while another
    * executor may be.
    */
  def standsBy(
      executor: String,
      standbys: Vector[Standing],
      noRoom: Set[Seat],
      batch: Long
  ): Unit = {
    reported.standsBy(executor, standbys, batch)
    noRoom.foreach(reported.refuses(executor, _, batch))
  }

  /** The load that this run has on each executor, or will have once workers that are on their way
    * have arrived.
    */
  def loads: Map[String, Load] = placedLoads

  /** The executors that were lost with workers of the run, the newest last. */
  def losses: Vector[Loss] = lossesKnown.all

  /** What has happened since this was asked last. */
  def takeNews(): PlacingNews = PlacingNews(lossesKnown.takeNew(), moving.takeEnded())

  /** Whether executors stand by for workers, or are to run them soon. */
  def hasStandbys: Boolean =
    settings.replicas > 0 || beside.relocating.nonEmpty || beside.standbys.nonEmpty

  /** Whether the workers are to be spread soon, for executors have come or gone. */
  def isSettling: Boolean = settings.isAuto && !isSpread

  /** Wishes an executor for each worker, and some that stand by. A worker whose executor is gone
    * goes where a standby of it is.
    */
  def place(scene: Scene): Unit = {
    if (!isAtRest(scene)) placeAnew(scene)
    else if (scene.batch % LoadsEvery == 0 || !areLoadsTold && scene.isKnown)
      note(scene, placesOf(scene))
    lost = Vector.empty
  }

  /** Whether nothing is to be done: each worker has run where it is wanted, and may stay there.
    * Most of the time it is so, and there may be thousands of workers.
    */
  private def isAtRest(scene: Scene): Boolean = settings.replicas == 0 &&
    beside.standbys.isEmpty && moving.open.isEmpty && !spreads(scene) &&
    scene.groups.forall { case (group, workers) =>
      val wanted = wishes.of(group.id)
      wanted.size == workers && wanted.indices.forall { worker =>
        cluster.open(wanted(worker)) && executorOf(group.id, worker).contains(wanted(worker))
      }
    }

  /** Workers that are on their way are not turned round. What they leave uneven is spread once they
    * have arrived.
    */
  private def spreads(scene: Scene): Boolean = {
    val isFirst = isSettling && scene.batch >= openSince + settings.settleBatches &&
      (!isPartlySpread || areAllThere)
    val isAgain = settings.isAuto && spreadAgainAt.exists(_ <= scene.batch)
    (isFirst || isAgain) && scene.isKnown
  }

  /** Whether no worker is on its way, but by a user's wish: where that leads stays as it is. */
  private def areAllThere: Boolean = moving.open.forall(_.why == Relocation.Asked)

  private def placeAnew(scene: Scene): Unit = {
    val isSpreading = spreads(scene)
    beside.noteAsked(scene)
    end(scene)
    val areAllThere = this.areAllThere
    val wanted = Placement(request(scene, Option.when(isSpreading)(settings.tolerance)))
    noteLosses(scene, wanted.places)
    moving.leave(scene, wanted.places)
    moving.begin(scene, wanted.targets, wanted.places, Relocation.Spread)
    val taken = if (scene.mayTake) moving.take(scene, settings) else Map.empty[Seat, String]
    wish(scene, wanted.places ++ taken)
    if (isSpreading) {
      isSpread = areAllThere
      isPartlySpread = !areAllThere
      spreadAgainAt = None
    }
  }

  /** Ends relocations. If one that was to even the load out has failed, workers are spread again
    * once the executor may be asked again that could not take the worker.
    */
  private def end(scene: Scene): Unit =
    if (moving.end(scene).exists(r => r.why == Relocation.Spread && r.reason.isDefined))
      spreadAgainAt = Some(scene.batch + ReportedStandbys.RefusedBatches + 1)

  /** Ends the relocations that have arrived: a batch is over, and there may be no other. */
  def batchEnded(scene: Scene): Unit = if (moving.open.nonEmpty) {
    end(scene)
    note(scene, placesOf(scene))
  }

  /** Begins relocations that even the load out. Returns them. */
  def spread(scene: Scene, tolerance: Double): Vector[Relocation] = {
    val wanted = Placement(request(scene, Some(tolerance)))
    val begun = moving.begin(scene, wanted.targets, wanted.places, Relocation.Spread)
    note(scene, wanted.places)
    begun
  }

  /** Begins relocations of some workers that are elsewhere. Returns them. One that is to be where
    * it is turns round.
    */
  def relocate(scene: Scene, to: Map[Seat, String]): Vector[Relocation] = {
    val places = placesOf(scene)
    moving.cancel(r => to.get(r.seat).exists(places.get(r.seat).contains))
    val begun = moving.begin(scene, to, places, Relocation.Asked)
    note(scene, places)
    begun
  }

  /** Ends relocations that no batch has taken. */
  def cancel(scene: Scene, ids: Set[Long]): Unit = {
    moving.cancel(r => ids(r.id))
    note(scene, placesOf(scene))
  }

  private def request(scene: Scene, tolerance: Option[Double]): Request = {
    val now = placesOf(scene)
    Request(
      cluster.members,
      scene.seats,
      now,
      bound = moving.targets,
      observed.stateOn(scene, _),
      observed.mostOn(scene, _),
      reported.refusals,
      cluster.elsewhere,
      tolerance
    )
  }

  /** Where each worker is: on the way that a batch took, where it is to go back to, where it ran
    * last, or, if it has not run yet, where it was wanted before.
    */
  private def placesOf(scene: Scene): Map[Seat, String] = {
    val taken = moving.open.iterator.filter(_.taken.isDefined).map(r => r.seat -> r.to).toMap
    scene.seats.keysIterator.flatMap { seat =>
      taken
        .get(seat)
        .orElse(home(scene, seat))
        .orElse(executorOf(seat))
        .filter(cluster.runs)
        .orElse(wantedBefore(scene, seat))
        .map(seat -> _)
    }.toMap
  }

  /** Where a worker ran and was wanted until Spark ran it elsewhere, some batches ago: what it left
    * there is good if its bins are those that it had.
    */
  private def home(scene: Scene, seat: Seat): Option[String] = for {
    (executor, batch) <- observed.runs.before(seat.group, seat.worker)
    if scene.batch <= batch + 1 + Relocations.ArrivalBatches && cluster.open(executor)
    if wishes.of(seat).contains(executor)
    if !scene.isBusy(seat) && !scene.isIncomplete(seat)
  } yield executor

  /** One without state need not stay where it was wanted, unless a step is to bring it some. */
  private def wantedBefore(scene: Scene, seat: Seat): Option[String] =
    wishes.of(seat).filter { executor =>
      cluster.open(executor) || cluster.runs(executor) &&
      (executorOf(seat).isDefined || scene.isBusy(seat))
    }

  private def noteLosses(scene: Scene, places: Map[Seat, String]): Unit = for {
    executor <- lost
    seats = scene.seats.keys.filter(executorOf(_).contains(executor))
    if seats.nonEmpty
  } {
    val promoted =
      seats.count(seat => places.get(seat).exists(observed.stateOn(scene, seat).contains))
    lossesKnown.add(Loss(executor, scene.batch, seats.size, promoted))
  }

  private def wish(scene: Scene, places: Map[Seat, String]): Unit = {
    for ((group, workers) <- scene.groups) {
      val before = wishes.of(group.id)
      wishes.wish(group.id, (0 until workers).flatMap(w => places.get(Seat(group.id, w))).toVector)
      if (settings.replicas > 0) beside.choose(scene, group, before, settings.replicas)
    }
    note(scene, places)
  }

  private def note(scene: Scene, places: Map[Seat, String]): Unit = {
    val to = moving.targets
    placedLoads = Load.byExecutor(
      for ((seat, load) <- scene.seats.toVector; on <- to.get(seat).orElse(places.get(seat)))
        yield on -> load
    )
    areLoadsTold = scene.isKnown
    beside.note(scene)
  }
}

private[runtime] object WorkerPlaces {

  /** Batches after which the loads of workers that stay are told to other queries again. */
  private val LoadsEvery = 16L
}
