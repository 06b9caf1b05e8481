// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.format.{Compression, StateName, StoreId, WriterId}
import io.megaphone.log.Due
import io.megaphone.runtime.{Assignment, BatchPlan, Tables, WorkerTask}
import io.megaphone.state.{Attempt, BinState}

/** What the tasks of one stage have in common. It comes with the batch's plan (P3).
  *
  * @param counter
  *   the driver's hint, which each task brings to its executor
  */
final case class Stage(
    driver: Driver,
    plan: BatchPlan,
    group: Long,
    action: Int,
    rows: Vector[Row],
    counter: Long
) {
  def batch: Long = plan.decision.batch.number
  def tables: Tables = plan.tables(group)
  def assignment: Assignment = plan.assignments(group)
}

/** One attempt of the stateful task of one worker, phase by phase, as Spark runs it:
  *
  *   1. The task brings the driver's counter.
  *   1. It opens each store by the shipped [[io.megaphone.runtime.WorkerTask]]; its bins are
  *      compared with the oracle.
  *   1. Rows are read and written, a few at a time.
  *   1. Stores are scanned for rows that are due, which go.
  *   1. Each store is committed, and the driver is told.
  *   1. The leases are given back, and the attempt may be accepted.
  *
  * An attempt that the driver has given up (a zombie) goes on like any other, and fails or not.
  */
final class TaskAttempt(
    world: World,
    val stage: Stage,
    val worker: Int,
    val executor: Executor,
    val number: Long
) {
  private val setup = world.setup
  private val stores = setup.storesOf(stage.group)
  private val salt = if (setup.isV2) number else 0L
  private val rows = Rows.reordered(
    stage.rows.filter(r => stage.tables.after.workerOf(Cells.binOf(r.key, setup.bins)) == worker),
    number
  )
  private val tasks = mutable.LinkedHashMap.empty[StoreId, WorkerTask]
  private val scans = setup.scansOf(stage.group)
  private val fromFiles = mutable.HashMap.empty[StoreId, Int] // bins, as it was opened
  private var nextOpen, nextRow, nextScan, nextCommit = 0

  /** When it opened a store last: the number of the moment. */
  var openedAt = 0L

  /** Whether the executor believes that it has been killed. */
  var isKilled = false

  /** Whether the driver has given it up: what it then runs into is no violation. */
  var isZombie = false
  var isDone = false

  /** By store: stamps written by key, and the ids of the commits. */
  val written: mutable.LinkedHashMap[StoreId, mutable.LinkedHashMap[Int, Long]] =
    mutable.LinkedHashMap.from(stores.map(_ -> mutable.LinkedHashMap.empty[Int, Long]))
  val ids: mutable.HashMap[StoreId, String] = mutable.HashMap.empty

  override def toString: String =
    s"${stage.driver.id} batch ${stage.batch} group ${stage.group} action ${stage.action} worker " +
      s"$worker attempt $number on ${executor.name}"

  /** Does one phase. Throws what the real code throws; the caller then ends it by `fail`. */
  def step(): Unit =
    if (nextOpen < stores.size) { open(stores(nextOpen)); nextOpen += 1 }
    else if (nextRow < rows.size) {
      val until = math.min(rows.size, nextRow + 1 + world.dice.below(rows.size))
      rows.slice(nextRow, until).foreach(row => stores.foreach(write(_, row)))
      nextRow = until
      if (world.faults.strikes(Fault.TaskFails)) throw new InjectedFault("user code failed")
    } else if (nextScan < scans.size) { (scan _).tupled(scans(nextScan)); nextScan += 1 }
    else if (nextCommit < stores.size) { commit(stores(nextCommit)); nextCommit += 1 }
    else { tasks.valuesIterator.foreach(_.end()); isDone = true }

  /** What Spark does for a task that failed: aborts its stores. */
  def fail(): Unit = {
    isDone = true
    tasks.valuesIterator.foreach { task =>
      task.end()
      world.planted.afterFailure(task.holding)
    }
  }

  private def open(store: StoreId): Unit = {
    if (executor.agent.notice(stage.counter)) world.mail.wantsToReport(executor)
    if (world.faults.strikes(Fault.TaskFails))
      throw new InjectedFault("the task failed before it opened a store")
    openedAt = world.nextNumber()
    world.mayGo.opens(this, store)
    world.planted.beforeOpen(executor, stage, store, worker)
    val recovery = executor.recovery(store.in(stage.driver.id))
    executor.registry.useKeyReader(store.in(stage.driver.id), () => Cells.Reader)
    val task = WorkerTask.open(
      executor.agent,
      WorkerTask.Store(store, world.checkpoint.files(store), recovery, NoCompression),
      worker,
      stage.batch,
      world.planted.assignment(executor, stage, store, worker),
      world.planted.tables(stage, store),
      new Attempt(world.planted.attemptId(this), () => !isKilled && !isDone),
      // Peers answer at once.
      WorkerTask.Settings(0, tailDeadlineMs = 60000, imageDeadlineMs = 60000, setup.limits)
    )
    tasks(store) = task
    stage.driver.tasks.located(stage.group, worker, executor.name)
    val arrivals = task.arrivals
    if (executor.standing.remove(task.id) && !arrivals.isRecovered) world.promoted()
    world.trace(
      s"$this opens $store at ${task.batch.nameOf(worker)}: in ${arrivals.binsIn}, here " +
        s"${arrivals.binsRelabelled}, peer ${arrivals.binsFromPeer}, files " +
        s"${arrivals.binsFromCheckpoint}${if (arrivals.isRecovered) ", recovered" else ""}"
    )
    fromFiles(store) = arrivals.binsFromCheckpoint
    if (!isZombie) check(store, task)
  }

  private def check(store: StoreId, task: WorkerTask): Unit = {
    val (holding, table) = (task.holding, task.batch.after)
    table
      .binsOf(worker)
      .foreach(bin => world.oracle.check(task.batch.version, store, bin, holding.stateOf(bin)))
    val extra = holding.bins
      .filterNot(bin => table.workerOf(bin) == worker || holding.isLeaving(bin))
      .toVector
    if (extra.nonEmpty)
      throw new Violation(s"worker $worker holds bins $extra, which are not its own")
    world.checkPromise(stage, worker, task.arrivals)
  }

  private def write(store: StoreId, row: Row): Unit = {
    val holding = tasks(store).holding
    val bin = Cells.binOf(row.key, setup.bins)
    if (world.dice.chance(0.3)) rows.foreach(r => want(store, r.key))
    if (!world.planted.is(Bug.WriteOverElsewhere))
      tasks(store).fetcher.bring(bin, Cells.hashOf(row.key))
    val before = Cells.get(holding, bin, row.key)
    val after = row.effect(store, salt, before)
    if (after != before || Dice.mix(row.number) % 5 == 0) {
      if (after == 0) Cells.remove(holding, bin, row.key)
      else Cells.put(holding, bin, row.key, after)
      written(store)(row.key) = after
    }
  }

  /** Lets the keys of a store go that are due by what another store, or it itself, has of them. */
  private def scan(scanned: StoreId, telling: StoreId): Unit = {
    val (keys, times) = (tasks(scanned), tasks(telling))
    val until = setup.dueUntil(stage.batch)
    if (!world.planted.is(Bug.ScanOfHere))
      keys.fetcher.bringDue(
        Due(setup.rowTime, until),
        times.fetcher,
        Option.when(scanned != telling)(times.fetcher)
      )
    for {
      key <- 0 until setup.keys if Cells.familyOf(key) == 0
      (bin, hash) = (Cells.binOf(key, setup.bins), Cells.hashOf(key))
      if isHere(keys, bin, hash) && Cells.get(keys.holding, bin, key) != 0
    } {
      times.fetcher.bring(bin, hash)
      val stamp = Cells.get(times.holding, bin, key)
      if (stamp != 0 && setup.timeOf(key, stamp) <= until)
        for (store <- Seq(scanned, telling).distinct) {
          Cells.remove(tasks(store).holding, bin, key)
          written(store)(key) = 0L
        }
    }
  }

  private def isHere(task: WorkerTask, bin: Int, hash: Int) = task.holding.stateOf(bin) match {
    case BinState.Local(_) => stage.tables.after.workerOf(bin) == worker
    case BinState.Partial(_, remote) => remote.isHere(hash)
    case BinState.Absent => false
  }

  private def want(store: StoreId, key: Int): Unit =
    tasks(store).fetcher.want(Cells.binOf(key, setup.bins), Cells.hashOf(key))

  private def commit(store: StoreId): Unit = {
    val task = tasks(store)
    if (world.faults.strikes(Fault.TaskFails))
      throw new InjectedFault("the task failed before a commit")
    if (world.faults.strikes(Fault.BatchHasNoRoom)) {
      executor.agent.standbys.giveWay()
      world.copyLost()
    }
    val id = if (setup.isV2) s"i${world.nextNumber()}" else StateName.FixedId
    world.planted.beforeCommit(executor, stage, task)
    val writer = world.planted.writer(WriterId(number, world.nextNumber()))
    val committed = task.commit(id, writer)
    world.trace(s"$this commits $store as ${StateName(stage.batch + 1, id)}")
    ids(store) = id
    world.mail.tell(this, committed)
    if (!isZombie) world.checkFetched(task.arrivals, fromFiles(store))
    world.planted.afterCommit(task.holding)
  }

  private def NoCompression = Compression.None
}
