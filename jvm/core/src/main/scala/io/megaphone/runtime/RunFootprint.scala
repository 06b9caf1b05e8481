// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.{Load, Member, Seat}
import io.megaphone.plan.Group
import io.megaphone.protocol.{Duties, Protocol}

/** What a run has on executors: its workers and their load, standbys, and workers on their way. Of
  * the moment that it is asked for; empty before the run's first batch.
  *
  * Threads: any.
  */
final class RunFootprint private[runtime] (
    snapshot: () => Option[Protocol.State],
    places: WorkerPlaces,
    told: WorkerLoads
) {

  import places.observed
  import places.observed.reported

  /** The relocations that are under way, and those that ended last. */
  def relocations: Vector[Relocation] = places.moving.all

  /** The executors that were lost with workers of the run, the newest last. */
  def losses: Vector[Loss] = places.losses

  /** The executor that a worker ran on last, if it is known. */
  def executorOf(operator: Long, worker: Int): Option[String] =
    observed.executorOf(operator, worker)

  /** The load that the run has on each executor, or will have once workers that are on their way
    * have arrived.
    */
  def loads: Map[String, Load] = places.loads

  /** The load of the workers that are placed on each executor now. */
  def placed: Map[String, Load] = Load.byExecutor(for {
    state <- snapshot().toVector
    group <- state.groups
    workers = state.currentTable(group.id).workers
    (executor, worker) <- places.wishes.of(group.id).take(workers).zipWithIndex
  } yield executor -> loadOf(group, worker))

  /** The load of a worker of a group; what is not known of it is 0. */
  def loadOf(group: Group, worker: Int): Load = told.loadOf(group, worker)

  /** Bytes of the live records of a worker, if they are known. */
  def bytesOf(seat: Seat): Option[Long] = for {
    state <- snapshot()
    group <- state.groups.find(_.id == seat.group)
    bytes <- told.bytesOf(group, seat.worker)
  } yield bytes

  /** Those of them that an executor's standby has, if they are known: by the part of the worker's
    * bins that are there.
    */
  def bytesReady(seat: Seat, executor: String): Option[Long] = for {
    state <- snapshot()
    bytes <- bytesOf(seat)
    bins = state.currentTable(seat.group).binsOf(seat.worker).size
  } yield math.round(reported.shareOn(state.group(seat.group), seat.worker, executor, bins) * bytes)

  /** The workers that are placed on an executor, or ran there last. */
  def staysOn(executor: String): Vector[Seat] = for {
    state <- snapshot().toVector
    group <- state.groups
    wanted = places.wishes.of(group.id)
    worker <- 0 until state.currentTable(group.id).workers
    if wanted.lift(worker).contains(executor) || group.operators.exists { operator =>
      executorOf(operator.id, worker).contains(executor)
    }
  } yield Seat(group.id, worker)

  /** What the run has on an executor that may be about to go.
    *
    * @param name
    *   how the query is called
    * @param isIdle
    *   whether it plans no batch
    * @param report
    *   what the executor reported last
    */
  def on(
      executor: String,
      name: String,
      run: String,
      isIdle: Boolean,
      report: Option[Report]
  ): Drain.OfQuery = {
    val seats = staysOn(executor)
    val stoodBy = places.beside.standbysOn(executor, isIdle)
    Drain.OfQuery(
      name,
      seats.size,
      isIdle,
      seats.forall(isElsewhere),
      stoodBy.size,
      report.flatMap(_.states.get(run)).getOrElse(0),
      report.flatMap(_.exports.get(run)).getOrElse(0),
      (seats ++ stoodBy)
        .flatMap(reported.refusals(_).keySet)
        .distinct
        .filter(_ != executor)
        .sorted(Member.order),
      seats.count(hasStrayed(_, executor))
    )
  }

  /** Whether executors stand by for workers, or are to run them soon. */
  def hasStandbys: Boolean = places.hasStandbys

  /** The workers that an executor stands by for.
    *
    * @param isIdle
    *   whether the query plans no batch: then what stays until a batch is over does not count
    */
  def standbysOn(executor: String, isIdle: Boolean): Vector[Seat] =
    places.beside.standbysOn(executor, isIdle)

  /** The executors that stand by for a worker of a group with all of its state, and keep up. */
  def standbysOf(group: Group, worker: Int): Vector[String] =
    places.beside.standbysOf(group.id).lift(worker).getOrElse(Vector.empty).filter { executor =>
      reported.isWhole(group, worker, executor) &&
      !observed.executorOf(group.id, worker).contains(executor)
    }

  /** How many workers each executor stands by for with all of their state, and keeps up. */
  def standbys: Map[String, Int] = (for {
    state <- snapshot().toVector
    group <- state.groups
    worker <- 0 until state.currentTable(group.id).workers
    executor <- standbysOf(group, worker)
  } yield executor).groupMapReduce(identity)(_ => 1)(_ + _)

  /** The executors that have state of the run that is in use, or that steps still take, or that
    * stand by, or are to.
    */
  def needed: Set[String] = (for {
    state <- snapshot().toVector
    group <- state.groups
    workers = workersInUse(state, group)
    executor <- places.wishes.of(group.id) ++
      workers.flatMap(worker => places.beside.of(Seat(group.id, worker))) ++
      group.operators.flatMap(o => workers.flatMap(executorOf(o.id, _)))
  } yield executor).toSet

  /** The workers of a group, with those that the batch under way does away with. While bins are
    * incomplete, all that there have been: a step may have taken them from one that is no more.
    */
  private def workersInUse(state: Protocol.State, group: Group): Range = {
    val now = state.currentTable(group.id).workers
    val before = state.decision.flatMap(_.before.get(group.id)).fold(0)(_.workers)
    val isArriving = Duties.takenAt(state, observed.isLost).nonEmpty
    0 until Seq(now, before, if (isArriving) observed.runs.workersOf(group.id) else 0).max
  }

  /** Whether the workers are to be spread soon, for executors have come or gone. */
  def isSettling: Boolean = places.isSettling

  /** Whether a worker has run on an executor although a batch had placed it on another, which has
    * all of its state.
    */
  private def hasStrayed(seat: Seat, executor: String): Boolean = snapshot().exists { state =>
    val group = state.group(seat.group)
    def hasRun(batch: Long) =
      group.operators.exists(o => observed.runs.hasRun(o.id, seat.worker, executor, batch))
    !isBrought(state, seat) && relocations.exists { r =>
      r.isOpen && r.seat == seat && r.taken.exists(hasRun) &&
      reported.isWhole(group, seat.worker, r.to)
    }
  }

  /** Whether steps bring a worker bins with the newest batch: no standby has them before the next
    * one is planned.
    */
  private def isBrought(state: Protocol.State, seat: Seat): Boolean =
    state.history.sealAt(newest(state)).exists(_.gaining.contains((seat.group, seat.worker)))
  private def newest(state: Protocol.State) = state.decision.fold(-1L)(_.batch.number)

  /** Whether another executor has all state of a worker, of the newest settled version. */
  def isElsewhere(seat: Seat): Boolean = snapshot().exists { state =>
    val group = state.group(seat.group)
    val settled = newest(state)
    !isBrought(state, seat) && places.beside.of(seat).exists { e =>
      observed.cluster.open(e) && reported.versionOn(group, seat.worker, e).exists(_ >= settled)
    }
  }
}
