// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.format.{Footer, StoreId, WorkerId}
import io.megaphone.plan.Group
import io.megaphone.runtime.{ClusterView, Report}
import io.megaphone.state.Registry

/** Knows whether an executor may go (rule 30) by what executors have, not by what the driver has
  * been told: whoever needs something that only this executor has would have to read files.
  *
  * The driver cannot know what a task has brought there that it has not heard of: neither a later
  * report of the executor nor the task's commit has come. Until one comes, the executor is not
  * judged.
  */
final class MayGo(world: World) {
  import MayGo._

  private val setup = world.setup
  private val reported = mutable.HashMap.empty[String, Snapshot]
  // When tasks on each executor opened the state of which no driver has been told since.
  private val untold = mutable.HashMap.empty[(String, Place), Long]
  private val stoodBy = mutable.HashMap.empty[String, Set[WorkerId]] // by executor
  private val leastOpen = mutable.HashMap.empty[String, Int].withDefaultValue(Int.MaxValue)
  private val refused = mutable.HashSet.empty[WorkerId] // somebody has had no room for them

  /** A report of an executor, as it is made; returns what to call once it is heard. */
  def reports(executor: Executor, report: Report): () => Unit = {
    val isCarrying = executor.publishedCount > 0 || executor.registry.replicasCount > 0
    val now = Snapshot(world.nextNumber(), executor.registry.exportsByRun.keySet, isCarrying)
    refused ++= report.noRoom
    () => reported(executor.name) = now
  }

  /** A driver is told of a commit of a task. */
  def told(by: TaskAttempt): Unit = {
    untold.updateWith((by.executor.name, Place.of(by)))(_.filter(_ > by.openedAt)); ()
  }

  /** An executor is about to be emptied. Those of its standbys that the drivers know to be whole
    * are to be made elsewhere (rule 30), but for state that stays until a batch is over.
    */
  def drainBegins(executor: Executor): Unit = {
    leastOpen -= executor.name
    stoodBy(executor.name) = standbysOn(executor)
  }

  private def standbysOn(executor: Executor): Set[WorkerId] = (for {
    driver <- world.drivers
    run <- driver.live.iterator if run.snapshot.isDefined
    seat <- run.footprint.standbysOn(executor.name, isIdle = true).iterator
    group = driver.state.group(seat.group)
    if run.footprint.standbysOf(group, seat.worker).contains(executor.name)
    id <- idsOf(driver, group, seat.worker)
  } yield id).toSet

  /** A driver looks at the cluster. While it sees too few executors that may stand by, those that
    * are to be emptied need not wait for any to come.
    */
  def seen(view: ClusterView): Unit = stoodBy.keysIterator.foreach { name =>
    leastOpen(name) = math.min(leastOpen(name), view.open.size)
  }

  /** A worker runs on an executor: what it leaves there is no standby. */
  def opens(task: TaskAttempt, store: StoreId): Unit = {
    untold((task.executor.name, Place.of(task))) = task.openedAt
    val worker = WorkerId(store.in(task.stage.driver.id), task.worker)
    stoodBy.updateWith(task.executor.name)(_.map(_ - worker)); ()
  }

  /** Whether each executor has made a report since a moment, which has been heard. */
  def haveAllReportedSince(moment: Long): Boolean =
    world.executors.forall(e => reported.get(e.name).exists(_.at > moment))

  /** The product says that an executor may go. Throws a violation if it may not. */
  def check(executor: Executor): Unit = {
    val last = reported.getOrElse(
      executor.name,
      throw new Violation(s"${executor.name} is said to be free to go, and has never reported")
    )
    judge(executor, last, needOf(_, executor, last))
  }

  /** The product says that nothing is left of an executor but workers that Spark runs there
    * although they are placed elsewhere. Throws a violation if it is wrong. What steps take from
    * there is known by reports only.
    */
  def checkStrayed(executor: Executor): Unit =
    for (last <- reported.get(executor.name))
      judge(
        executor,
        last,
        driver => placed(driver, executor).orElse(stateOn(driver, executor))
      )

  private def judge(executor: Executor, last: Snapshot, needOf: Driver => Option[String]): Unit = {
    val name = executor.name
    for {
      driver <- world.drivers
      // A report does not say whether what an idle query has there is new or left behind.
      reportedAt = if (world.isAtRest(driver)) 0L else last.at
      if !untold.exists { case ((on, place), at) =>
        on == name && place.run == driver.id && at > reportedAt
      }
      if driver.live.exists(_.snapshot.exists(_.decision.isDefined))
      need <- needOf(driver)
    } throw new Violation(s"$name is said to be free to go, but ${driver.id} needs $need")
  }

  private def needOf(driver: Driver, executor: Executor, last: Snapshot): Option[String] = {
    val isIdle = world.isAtRest(driver)
    def rest = Option.when(
      executor.registry.exportsByRun.contains(driver.id) && (!isIdle || last.exports(driver.id)) &&
        world.executors.exists(isAwaiting(driver, _, executor))
    )("what it has lent to others")
    def carried = Option.when(last.isCarrying)(driver).flatMap(stepNeeding(_, executor))
    placed(driver, executor).orElse(stateOn(driver, executor)).orElse(rest).orElse(carried)
  }

  private def seatsOf(driver: Driver) = for {
    group <- setup.groups
    worker <- 0 until driver.state.currentTable(group.id).workers
  } yield (group, worker)

  private def placed(driver: Driver, executor: Executor): Option[String] =
    seatsOf(driver).collectFirst {
      case (group, worker)
          // One that has no state yet, as before a run's first commits, may go elsewhere.
          if !world.isAtRest(driver) && driver.isPlacedOn(executor.name, group.id, worker) &&
            driver.tasks.locationOf(group.id, worker).contains(executor.name) &&
            hasSome(driver, executor, group, worker) =>
        s"it for worker $worker of group ${group.id}, which is placed there"
    }

  private def stateOn(driver: Driver, executor: Executor): Option[String] =
    seatsOf(driver).collectFirst {
      case (group, worker)
          if isCopy(driver, executor, group, worker) &&
            isLacked(driver, executor, group, worker) =>
        s"its state of worker $worker of group ${group.id}, which others lack"
    }

  /** Whether an executor has all of a worker's state but what the newest batch brings it, and a
    * task there would read no more than tails.
    */
  private def isCopy(driver: Driver, at: Executor, group: Group, worker: Int): Boolean = {
    val decision = driver.state.decision.get
    val (before, after) = (decision.before(group.id), decision.after(group.id))
    val bins = after.binsOf(worker).filter(before.workerOf(_) == worker)
    has(driver, at, group, worker, bins, decision.batch.number - Footer.PreviousMax)
  }

  /** Whether an executor has all of a worker's state, as of the newest version that is settled. */
  private def hasAll(driver: Driver, at: Executor, group: Group, worker: Int): Boolean = {
    val decision = driver.state.decision.get
    val bins = decision.after(group.id).binsOf(worker)
    has(driver, at, group, worker, bins, decision.batch.number)
  }

  private def has(
      driver: Driver,
      at: Executor,
      group: Group,
      worker: Int,
      bins: Iterable[Int],
      since: Long
  ) = bins.nonEmpty && idsOf(driver, group, worker).forall { id =>
    at.registry.holding(id).exists { here =>
      (here.lineage.nonEmpty || here.head.isDefined) && !here.areIncomplete &&
      here.base.version >= since && bins.forall(here.has)
    }
  }

  /** Whether the others could not do without. If the worker runs on the executor: no other has its
    * state. If the executor stood by for it when its drain began: too few others do.
    */
  private def isLacked(driver: Driver, executor: Executor, group: Group, worker: Int): Boolean = {
    val others = world.executors.filterNot(_ eq executor)
    val home = driver.tasks.locationOf(group.id, worker).flatMap(world.executor)
    home.exists { at =>
      if (at eq executor)
        if (world.isAtRest(driver) && others.exists(world.isStaying))
          !others.exists(e => world.isStaying(e) && hasAll(driver, e, group, worker))
        else !others.exists(isCopy(driver, _, group, worker))
      else {
        val ids = idsOf(driver, group, worker)
        val free = math.min(
          others.count(e => (e ne at) && world.isStaying(e) && !e.isFull),
          leastOpen(executor.name) - 1 // but for the worker's own
        )
        val had = others.count(e => (e ne at) && hasSome(driver, e, group, worker))
        ids.forall(stoodBy.getOrElse(executor.name, Set.empty)) && !ids.exists(refused) &&
        had < math.min(setup.placement.replicas, free)
      }
    }
  }

  /** Whether an executor has some of a worker's state. A standby lacks what a step has just brought
    * the worker.
    */
  private def hasSome(driver: Driver, at: Executor, group: Group, worker: Int): Boolean =
    idsOf(driver, group, worker).forall(at.registry.holding(_).exists(_.bins.nonEmpty))

  /** A worker of a group, once for each store. */
  private def idsOf(driver: Driver, group: Group, worker: Int): Seq[WorkerId] =
    group.stores.map(store => WorkerId(store.in(driver.id), worker))

  /** Whether bins of a worker that runs on `at` are incomplete, and `from` has the rest. */
  private def isAwaiting(driver: Driver, at: Executor, from: Executor): Boolean = {
    def isLent(registry: Registry, worker: WorkerId) = registry.holding(worker).exists { here =>
      worker.store.run == driver.id && here.keepsUp(driver.state.decision.get.batch.number) &&
      here.incomplete.exists { case (_, remote) => remote.at.exists(_.id == from.name) }
    }
    at.registry.workers(_.areIncomplete).exists(isLent(at.registry, _))
  }

  /** The step that is to come, or comes, whose blocks or replicas the executor has. */
  private def stepNeeding(driver: Driver, executor: Executor): Option[String] = {
    val decision = driver.state.decision.get
    val steps = (decision.announced.iterator.map(_.id) ++ decision.sealedSteps.map(_.id)).toSet
    executor.carried.collectFirst {
      case (run, step) if run == driver.id && steps(step) => s"blocks or replicas of step $step"
    }
  }
}

private object MayGo {

  /** A worker of a group of a run. */
  final case class Place(run: String, group: Long, worker: Int)
  object Place {
    def of(task: TaskAttempt): Place = Place(task.stage.driver.id, task.stage.group, task.worker)
  }

  /** What an executor had as it made a report.
    *
    * @param at
    *   the number of the moment
    * @param exports
    *   the runs of its exports
    * @param isCarrying
    *   whether it had blocks or replicas
    */
  final case class Snapshot(at: Long, exports: Set[String], isCarrying: Boolean)
}
