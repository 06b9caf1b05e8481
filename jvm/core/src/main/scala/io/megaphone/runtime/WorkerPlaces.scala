// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.{Load, MemberState, Placement, Request, Seat, Standbys}
import io.megaphone.plan.Group
import io.megaphone.runtime.ReportedStandbys.StuckBatches

/** Where a run's workers are, where they are wanted, who stands by for them, and which of them are
  * on their way elsewhere. A group's workers are placed as one: all its operators run in the same
  * tasks. It is kept in memory only: a place is a wish, and the next run has other executors.
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
  * ''A standby is not whole for long:'' another executor is asked, and `warn` is told.
  *
  * Threads: one at a time. What only tells something may be called by any thread at any time:
  * `cluster`, `executorOf`, `addressOf`, `standbys`, `standbysOn`, `standbysOf`, `relocating`,
  * `besides`, `relocations`, `unfitFor`, `losses`, `loads`, `wanted`, `wantedOf`, `hasStandbys`,
  * `isSettling`, `isWhole`, `versionOn` and `shareOn`; and so may `ran`.
  */
private[runtime] final class WorkerPlaces(warn: String => Unit) {
  import WorkerPlaces._

  private val runs = new LastRuns
  private val pinned = mutable.Map.empty[(Long, Int), String]
  private val reported = new ReportedStandbys
  private val moving = new Relocations
  @volatile private var settings = PlacementSettings()
  private var openSince = -1L // the batch at which the executors that may get workers changed
  @volatile private var isSpread = false // since then
  private var isPartlySpread = false // since then, without workers that were on their way
  private var areLoadsTold = false // those of all workers, to other queries
  private var lost = Vector.empty[String] // executors whose workers have no other place yet
  private val lossesKnown = new Losses
  @volatile private var wished = Map.empty[Long, Vector[String]] // group → executors
  @volatile private var assigned = Map.empty[Long, Vector[Vector[String]]] // who should stand by
  @volatile private var wantedStandbys = Map.empty[Long, Vector[Vector[String]]] // and who stays
  @volatile private var targets = Map.empty[Long, Vector[Vector[String]]] // of relocations
  @volatile private var seen = ClusterView.Empty
  @volatile private var placedLoads = Map.empty[String, Load]

  /** Sets how workers are placed, before the first are. */
  def configure(how: PlacementSettings): Unit = settings = how

  /** The newest view of the cluster. */
  def cluster: ClusterView = seen

  /** Takes a newer view, before a batch is planned or while it runs. Returns the executors that are
    * gone.
    */
  def see(now: ClusterView, batch: Long): Vector[String] = {
    val lost = seen.ids.filterNot(id => now.get(id).isDefined)
    pinned.filterInPlace((_, executor) => !lost.contains(executor))
    runs.forget(lost)
    reported.forget(lost, batch)
    this.lost ++= lost
    if (now.open != seen.open) { openSince = batch; isSpread = false; isPartlySpread = false }
    seen = now
    lost
  }

  /** A worker of an operator has committed a batch on an executor. What comes late is ignored. */
  def ran(operator: Long, worker: Int, executor: String, batch: Long): Unit =
    runs.ran(operator, worker, executor, batch)

  /** The executor that a worker ran on last, if it is known. */
  def executorOf(operator: Long, worker: Int): Option[String] =
    runs.executorOf(operator, worker)

  /** The address of that executor, if others can ask it. */
  def addressOf(group: Long, worker: Int): Option[ExecutorAddress] =
    executorOf(group, worker).flatMap(cluster.peer)

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

  /** By group: the executors that are to stand by for each worker. Another map if that changes. */
  def standbys: Map[Long, Vector[Vector[String]]] = wantedStandbys

  /** The workers that an executor is to stand by for, or, if `isForGood`, should go on standing by
    * for: some standbys stay only until a batch is over.
    */
  def standbysOn(executor: String, isForGood: Boolean): Vector[Seat] = for {
    (group, workers) <- (if (isForGood) assigned else standbys).toVector
    (executors, worker) <- workers.zipWithIndex if executors.contains(executor)
  } yield Seat(group, worker)

  /** The executors that are to stand by for each worker of a group. */
  def standbysOf(group: Long): Vector[Vector[String]] = standbys.getOrElse(group, Vector.empty)

  /** By group: where each worker is on its way to, if it is. Another map if that changes. */
  def relocating: Map[Long, Vector[Vector[String]]] = targets

  /** The executors that are to have a worker's state beside its own one: that which is to take it
    * over, and those that stand by.
    */
  def besides(seat: Seat): Vector[String] =
    Vector(relocating, standbys).flatMap(_.get(seat.group)).flatMap(_.lift(seat.worker)).flatten

  /** The relocations that are under way, and those that ended last. */
  def relocations: Vector[Relocation] = moving.all

  /** The load that this run has on each executor, or will have once workers that are on their way
    * have arrived.
    */
  def loads: Map[String, Load] = placedLoads

  /** Wishes an executor for each worker, and some that stand by. A worker whose executor is gone
    * goes where a standby of it is.
    */
  def place(scene: Scene): Unit = {
    if (!isAtRest(scene)) placeAnew(scene)
    else if (scene.batch % LoadsEvery == 0 || !areLoadsTold && scene.isKnown)
      noteTargets(scene, placesOf(scene))
    lost = Vector.empty
  }

  /** Whether nothing is to be done: each worker has run where it is wanted, and may stay there.
    * Most of the time it is so, and there may be thousands of workers.
    */
  private def isAtRest(scene: Scene): Boolean = settings.replicas == 0 && standbys.isEmpty &&
    moving.open.isEmpty && !spreads(scene) && scene.groups.forall { case (group, workers) =>
      val wanted = wantedOf(group.id)
      wanted.size == workers && wanted.indices.forall { worker =>
        cluster.open(wanted(worker)) && executorOf(group.id, worker).contains(wanted(worker))
      }
    }

  /** Whether the workers are to be spread soon, for executors have come or gone. */
  def isSettling: Boolean = settings.isAuto && !isSpread

  /** Workers that are on their way are not turned round. What they leave uneven is spread once they
    * have arrived.
    */
  private def spreads(scene: Scene): Boolean = isSettling &&
    scene.batch >= openSince + settings.settleBatches && scene.isKnown &&
    (!isPartlySpread || areAllThere)

  /** Whether no worker is on its way, but by a user's wish: where that leads stays as it is. */
  private def areAllThere: Boolean = moving.open.forall(_.why == Relocation.Asked)

  private def placeAnew(scene: Scene): Unit = {
    val isSpreading = spreads(scene)
    for ((group, workers) <- scene.groups) {
      val asked = for (w <- 0 until workers; e <- besides(Seat(group.id, w))) yield (w, e)
      reported.asked(group, asked.toSet, scene.batch)
    }
    end(scene)
    val areAllThere = this.areAllThere
    val wanted = Placement(request(scene, Option.when(isSpreading)(settings.tolerance)))
    noteLosses(scene, wanted.places)
    leave(scene, wanted.places)
    begin(scene, wanted.targets, wanted.places, Relocation.Spread)
    val taken = if (scene.mayTake) take(scene) else Map.empty[Seat, String]
    note(scene, wanted.places ++ taken)
    if (isSpreading) { isSpread = areAllThere; isPartlySpread = !areAllThere }
  }

  /** Ends the relocations that have arrived: a batch is over, and there may be no other. */
  def batchEnded(scene: Scene): Unit = if (moving.open.nonEmpty) {
    end(scene)
    noteTargets(scene, placesOf(scene))
  }

  /** Begins relocations that even the load out. Returns them. */
  def spread(scene: Scene, tolerance: Double): Vector[Relocation] = {
    val wanted = Placement(request(scene, Some(tolerance)))
    val begun = begin(scene, wanted.targets, wanted.places, Relocation.Spread)
    noteTargets(scene, wanted.places)
    begun
  }

  /** The executors that could not take a worker, not long ago. */
  def unfitFor(seat: Seat): Set[String] = reported.refusals(seat).keySet

  /** Whether executors had no room for workers, not long ago. */
  def hasRefusals: Boolean = reported.hasRefusals

  /** Begins relocations of some workers that are elsewhere. Returns them. */
  def relocate(scene: Scene, to: Map[Seat, String]): Vector[Relocation] = {
    val places = placesOf(scene)
    // One that is to be where it is turns round.
    moving.change { r =>
      val isKept = r.isMaking && to.get(r.seat).exists(places.get(r.seat).contains)
      if (isKept) r.cancelled else r
    }
    val begun = begin(scene, to, places, Relocation.Asked)
    noteTargets(scene, places)
    begun
  }

  /** Ends relocations that no batch has taken. */
  def cancel(scene: Scene, ids: Set[Long]): Unit = {
    moving.change { r =>
      if (ids(r.id) && r.isMaking) r.cancelled else r
    }
    noteTargets(scene, placesOf(scene))
  }

  private def request(scene: Scene, tolerance: Option[Double]): Request = {
    val now = placesOf(scene)
    Request(
      cluster.members,
      scene.seats,
      now,
      bound = moving.targets,
      stateOn(scene, _),
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
        .orElse(executorOf(seat.group, seat.worker))
        .filter(cluster.runs)
        .orElse(wantedBefore(scene, seat))
        .map(seat -> _)
    }.toMap
  }

  /** Where a worker ran and was wanted until Spark ran it elsewhere, some batches ago: what it left
    * there is good if its bins are those that it had.
    */
  private def home(scene: Scene, seat: Seat): Option[String] = for {
    (executor, batch) <- runs.before(seat.group, seat.worker)
    if scene.batch <= batch + 1 + ArrivalBatches && cluster.open(executor)
    if wantedOf(seat.group).lift(seat.worker).contains(executor)
    if !scene.isBusy(seat) && !scene.isIncomplete(seat)
  } yield executor

  /** One without state need not stay where it was wanted, unless a step is to bring it some. */
  private def wantedBefore(scene: Scene, seat: Seat): Option[String] = {
    wantedOf(seat.group)
      .lift(seat.worker)
      .filter { executor =>
        cluster.open(executor) || cluster.runs(executor) &&
        (executorOf(seat.group, seat.worker).isDefined || scene.isBusy(seat))
      }
  }

  private def end(scene: Scene): Unit = moving.change { r =>
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

  private def begin(
      scene: Scene,
      targets: Map[Seat, String],
      places: Map[Seat, String],
      why: Relocation.Why
  ): Vector[Relocation] = {
    val under = moving.targets
    val drained =
      cluster.members.iterator.filter(_.state == MemberState.Draining).map(_.id).toSet
    def mayTry(seat: Seat, to: String) = why == Relocation.Asked ||
      stateOn(scene, seat).contains(to) || !hasJustRefused(scene, seat, to)
    moving.begin(
      for {
        (seat, to) <- targets.toVector.sortBy(_._1)
        from <- places.get(seat).toVector
        if to != from && !under.get(seat).contains(to) && mayTry(seat, to)
        isForced = drained(from) && why == Relocation.Spread
      } yield Relocation(0, seat, from, to, if (isForced) Relocation.Drain else why, scene.batch)
    )
  }

  private def noteLosses(scene: Scene, places: Map[Seat, String]): Unit = for {
    executor <- lost
    seats = scene.seats.keys.filter(s => executorOf(s.group, s.worker).contains(executor))
    if seats.nonEmpty
  } {
    val promoted = seats.count(seat => places.get(seat).exists(stateOn(scene, seat).contains))
    lossesKnown.add(Loss(executor, scene.batch, seats.size, promoted))
  }

  /** The executors that were lost with workers of the run, the newest last. */
  def losses: Vector[Loss] = lossesKnown.all

  /** What has happened since this was asked last. */
  def takeNews(): PlacingNews = PlacingNews(lossesKnown.takeNew(), moving.takeEnded())

  /** Workers whose executors get no more tasks go elsewhere with the next batch. */
  private def leave(scene: Scene, places: Map[Seat, String]): Unit = {
    val under = moving.targets
    moving.begin(
      for {
        (seat, to) <- places.toVector.sortBy(_._1)
        from <- executorOf(seat.group, seat.worker).toVector
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

  /** Takes the relocations whose standbys are there. Returns where the workers go. */
  private def take(scene: Scene): Map[Seat, String] = {
    val open = moving.open
    val ready = open.filter { r =>
      r.isMaking && !isBusy(scene, r) &&
      versionOn(scene.groupOf(r.seat), r.seat.worker, r.to).exists(_ >= scene.batch - 2)
    }
    val isAwaited = open.iterator.filter(_.taken.isDefined).map(_.to).toSet
    val taken = ready.groupBy(_.to).iterator.flatMap { case (to, some) =>
      if (isWarm(scene, to)) some
      else if (isAwaited(to) || runs.firstOn(to).isDefined) Vector.empty
      else Vector(some.minBy(r => (scene.seats(r.seat).bytes, r.seat)))
    }
    val ids = taken.map(r => r.id -> r).toMap
    moving.change(r => if (ids.contains(r.id)) r.copy(taken = Some(scene.batch)) else r)
    ids.valuesIterator.map(r => r.seat -> r.to).toMap
  }

  /** Whether a step of a plan goes first. It is not waited for without end: plans may have many. */
  private def isBusy(scene: Scene, r: Relocation): Boolean =
    scene.batch - r.since <= settings.patienceBatches && scene.isBusy(r.seat)

  /** Whether an executor has run workers of the query for some batches. The first tasks on a new
    * one take long, whatever they do, so it gets its lightest worker first.
    */
  private def isWarm(scene: Scene, executor: String): Boolean = settings.pilotBatches == 0 ||
    runs.firstOn(executor).exists(_ + settings.pilotBatches <= scene.batch)

  private def note(scene: Scene, places: Map[Seat, String]): Unit = {
    for ((group, workers) <- scene.groups) {
      val before = wantedOf(group.id)
      val wanted = (0 until workers).flatMap(w => places.get(Seat(group.id, w))).toVector
      wished = wished.updated(group.id, wanted)
      if (settings.replicas > 0) {
        val known = standbysOf(group.id)
        giveUpStuck(scene, group, known)
        val chosen = Standbys.assign(
          wanted,
          // Where the worker was before, its state is.
          w => known.lift(w).toSeq.flatten ++ before.lift(w),
          cluster.members,
          settings.replicas,
          isWhole(group, _, _),
          w => unfitFor(Seat(group.id, w)),
          (w, e) => hasJustRefused(scene, Seat(group.id, w), e),
          w => scene.seats.get(Seat(group.id, w)).fold(0L)(_.bytes)
        )
        assigned = assigned.updated(group.id, chosen)
      }
    }
    noteTargets(scene, places)
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
      if (!unfitFor(seat)(executor))
        warn(
          s"Executor $executor does not come to stand by for worker $worker of operator " +
            s"${group.id} with all of its state: it falls behind, or begins again and again; its " +
            "log says why. Another executor is asked, if there is one. If the worker's executor " +
            "is lost before, its state is read from the checkpoint."
        )
      reported.refuses(executor, seat, scene.batch)
    }
  }

  /** Whether an executor could not take a worker just now: it may try again after a while, if it is
    * the only one that is left.
    */
  private def hasJustRefused(scene: Scene, seat: Seat, executor: String): Boolean =
    reported.refusals(seat).get(executor).exists(_ + StuckBatches > scene.batch)

  private def noteTargets(scene: Scene, places: Map[Seat, String]): Unit = {
    val to = moving.targets
    placedLoads = Load.byExecutor(
      for ((seat, load) <- scene.seats.toVector; on <- to.get(seat).orElse(places.get(seat)))
        yield on -> load
    )
    areLoadsTold = scene.isKnown
    noteStandbys(scene, to)
    val now =
      if (to.isEmpty) Map.empty[Long, Vector[Vector[String]]]
      else
        scene.groups.map { case (group, workers) =>
          group.id -> Vector.tabulate(workers)(w => to.get(Seat(group.id, w)).toVector)
        }.toMap
    if (now != targets) targets = now
  }

  /** Those that should stand by, and those that stay for now. Before `targets` change, for the
    * state of what was to be relocated may be relied on.
    */
  private def noteStandbys(scene: Scene, to: Map[Seat, String]): Unit =
    for ((group, workers) <- scene.groups) {
      val chosen = Vector.tabulate(workers) { w =>
        val seat = Seat(group.id, w)
        val some = assigned.get(group.id).flatMap(_.lift(w)).getOrElse(Vector.empty)
        some ++ staying(scene, seat).filterNot(e => some.contains(e) || to.get(seat).contains(e))
      }
      if (chosen.forall(_.isEmpty)) wantedStandbys -= group.id
      else if (chosen != standbysOf(group.id))
        wantedStandbys = wantedStandbys.updated(group.id, chosen)
    }

  /** Who has a worker's state beside its own executor, and keeps it for now, whoever else is to
    * have it: something relies on it there.
    */
  private def staying(scene: Scene, seat: Seat): Vector[String] = {
    val sent = pinned.get((seat.group, seat.worker))
    def isHome(executor: String) = executorOf(seat.group, seat.worker).contains(executor) &&
      wantedOf(seat.group).lift(seat.worker).contains(executor)
    besides(seat).distinct.filter { executor =>
      cluster.get(executor).isDefined && !isHome(executor) &&
      (sent.contains(executor) || scene.reliesOn(seat)(executor))
    }
  }

  /** Whether an executor has a standby with all bins of a worker, in all stores, that keeps up: the
    * worker's task would read no more than tails.
    */
  def isWhole(group: Group, worker: Int, executor: String): Boolean =
    reported.isWhole(group, worker, executor)

  /** Of the executors that may get a worker, those with its newest standbys that are whole. One
    * elsewhere may be newer, and is of no use.
    */
  private def stateOn(scene: Scene, seat: Seat): Seq[String] =
    reported.newestOn(scene.groupOf(seat), seat.worker, cluster.open)

  /** The version of an executor's standby that has all bins of a worker; None if it has none. */
  def versionOn(group: Group, worker: Int, executor: String): Option[Long] =
    reported.versionOn(group, worker, executor)

  /** The part of a worker's bins, of so many, that an executor's standby has. */
  def shareOn(group: Group, worker: Int, executor: String, bins: Int): Double =
    reported.shareOn(group, worker, executor, bins)

  /** By group: the executors that are to stand by for each worker, or to take it over, and have all
    * of its state, of the least version wanted or a later one. Nothing where nobody does.
    */
  def stoodBy(
      groups: Vector[Group],
      leastOf: Seat => Long
  ): Map[Long, Vector[Set[String]]] = (for {
    group <- groups
    workers = Vector(relocating, standbys).flatMap(_.get(group.id)).map(_.size)
    if workers.nonEmpty
  } yield group.id -> Vector.tabulate(workers.max) { worker =>
    val seat = Seat(group.id, worker)
    val least = leastOf(seat)
    besides(seat).filter(versionOn(group, worker, _).exists(_ >= least)).toSet
  }).toMap

  /** The executor that is wished for each worker, by group. */
  def wanted: Map[Long, Vector[String]] = wished

  /** The executor that is wished for each worker of a group. */
  def wantedOf(group: Long): Vector[String] = wished.getOrElse(group, Vector.empty)

  /** Whether executors stand by for workers, or are to run them soon. */
  def hasStandbys: Boolean = settings.replicas > 0 || relocating.nonEmpty || standbys.nonEmpty

  /** Pins for those of a group's workers that are not known to run where they are wanted. */
  def pinsOf(group: Group, workers: Int): Vector[Pin] = for {
    (executor, worker) <- wantedOf(group.id).zipWithIndex.take(workers)
    operator <- group.operators
    key = (operator.id, worker)
    isElsewhere = executorOf(operator.id, worker).exists(_ != executor)
    if !pinned.get(key).contains(executor) || isElsewhere
    address <- cluster.get(executor)
  } yield { pinned(key) = executor; Pin(operator.id, operator.stores, worker, address) }
}

private[runtime] object WorkerPlaces {

  /** Batches after which a worker whose tasks run elsewhere is not sent to its place any more. */
  private val ArrivalBatches = 5L

  /** Batches after which the loads of workers that stay are told to other queries again. */
  private val LoadsEvery = 16L

  /** What is known when workers are placed.
    *
    * @param groups
    *   each with the number of workers to place
    * @param isBusy
    *   whether an announced step takes bins from a worker or to it, or one has just brought it some
    * @param isIncomplete
    *   whether a worker may have incomplete bins: nobody goes on from these by tails
    * @param reliesOn
    *   the executors where a worker's state is relied on: where the batch under way has it run, and
    *   where steps take bins of it to, those that are announced and those that the batch takes
    * @param mayTake
    *   whether relocations may take effect: only in the planning of a batch, and once for it
    * @param knowsLoads
    *   whether the loads of all workers are known
    */
  final case class Scene(
      batch: Long,
      groups: Vector[(Group, Int)],
      loadOf: Seat => Load,
      isBusy: Seat => Boolean,
      isIncomplete: Seat => Boolean,
      reliesOn: Seat => Set[String],
      mayTake: Boolean,
      knowsLoads: () => Boolean
  ) {
    private val byId = groups.iterator.map { case (group, _) => group.id -> group }.toMap
    lazy val isKnown: Boolean = knowsLoads()
    lazy val seats: Map[Seat, Load] = (for {
      (group, workers) <- groups
      worker <- 0 until workers
      seat = Seat(group.id, worker)
    } yield seat -> loadOf(seat)).toMap
    def groupOf(seat: Seat): Group = byId(seat.group)
  }
}
