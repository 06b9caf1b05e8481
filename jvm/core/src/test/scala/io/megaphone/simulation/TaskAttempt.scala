// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.format.{StateName, StoreKey, WriterId}
import io.megaphone.plan.TransferMode
import io.megaphone.protocol.Protocol
import io.megaphone.state.{Attempt, Holding, Lease, StoreBatch}
import io.megaphone.transfer.{BlockName, Sources, TransferBlocks}

/** What the tasks of one stage have in common. It comes with the batch's plan (P3). */
final case class Stage(
    driver: Driver,
    decision: Protocol.Decision,
    group: Long,
    action: Int,
    rows: Vector[Row],
    ids: Map[StoreId, Vector[String]],
    sources: Sources
) {
  def batch: Long = decision.batch.number

  def turn(store: StoreId): StoreBatch =
    StoreBatch(
      StoreKey(driver.run, store.operator, store.store),
      batch,
      decision.before(group),
      decision.after(group),
      ids.getOrElse(store, Vector.empty)
    )
}

/** One attempt of the stateful task of one worker, phase by phase, as Spark runs it:
  *
  *   1. The driver's word is heard.
  *   1. Each store is opened: lease, then [[io.megaphone.store.Opener]]; its bins are compared with
  *      the oracle; images of newly announced steps are published.
  *   1. Rows are read and written, a few at a time.
  *   1. Each store is committed; tails, and in direct mode images of the head, are published.
  *   1. The leases are given back, and the attempt may be accepted.
  *
  * An attempt that the driver has given up (a zombie) goes on like any other, and fails or not.
  */
final class TaskAttempt(
    world: World,
    val stage: Stage,
    val worker: Int,
    val executor: Executor,
    val number: Long,
    message: Message
) {
  private val setup = world.setup
  private val stores = setup.storesOf(stage.group)
  private val salt = if (setup.isV2) number else 0L
  private val rows = {
    val table = stage.decision.after(stage.group)
    Rows.reordered(
      stage.rows.filter(r => table.workerOf(Cells.binOf(r.key, setup.bins)) == worker),
      number
    )
  }
  private val leases = mutable.LinkedHashMap.empty[StoreId, Lease]
  private var nextOpen, nextRow, nextCommit = 0

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
    s"${stage.driver.run} batch ${stage.batch} group ${stage.group} action ${stage.action} worker $worker attempt $number on ${executor.name}"

  /** Does one phase. Throws what the real code throws; the attempt is then to be ended by `fail`. */
  def step(): Unit =
    if (nextOpen < stores.size) { open(stores(nextOpen)); nextOpen += 1 }
    else if (nextRow < rows.size) {
      val until = math.min(rows.size, nextRow + 1 + world.dice.below(rows.size))
      rows.slice(nextRow, until).foreach(row => stores.foreach(write(_, row)))
      nextRow = until
      if (world.faults.strikes(Fault.TaskFails)) throw new InjectedFault("user code failed")
    } else if (nextCommit < stores.size) { commit(stores(nextCommit)); nextCommit += 1 }
    else { leases.valuesIterator.foreach(_.release()); isDone = true }

  /** What Spark does for a task that failed: aborts its stores. */
  def fail(): Unit = {
    isDone = true
    leases.valuesIterator.foreach(_.end())
  }

  private def open(store: StoreId): Unit = {
    executor.hear(message)
    if (world.faults.strikes(Fault.TaskFails))
      throw new InjectedFault("the task failed before it opened a store")
    val turn = world.planted.turn(stage, store)
    val lease = executor.registry.lease(
      turn.key,
      worker,
      setup.bins,
      new Attempt(world.planted.attemptId(this), () => !isKilled && !isDone),
      waitMs = 0
    )
    leases(store) = lease
    world.planted.beforeOpen(executor, lease, turn, stage.sources)
    val opened = executor.opener(store).open(lease, turn, stage.sources)
    val holding = lease.holding
    def found =
      s"in ${opened.binsIn}, here ${opened.binsRelabelled}, peer ${opened.binsFromPeer}, files ${opened.binsFromCheckpoint}"
    world.trace(
      s"$this opens $store at ${turn.nameOf(worker)}: $found${if (opened.isRecovered) ", recovered"
        else ""}"
    )
    if (!isZombie) {
      val owned = turn.after.binsOf(worker)
      owned.foreach(bin => world.oracle.check(turn.version, store, bin, holding.log(bin)))
      val extra = holding.bins
        .filterNot(bin => turn.after.workerOf(bin) == worker || holding.isLeaving(bin))
        .toVector
      if (extra.nonEmpty)
        throw new Violation(s"worker $worker holds bins $extra, which are not its own")
      world.checkPromise(stage, opened)
    }
    if (stage.action == 0) publishImages(turn, holding)
  }

  private def publishImages(turn: StoreBatch, holding: Holding): Unit =
    for {
      announced <- stage.decision.announced
      if announced.id.group == stage.group && announced.mode == TransferMode.Prepared && announced.since == stage.batch
      (target, bins) <- outgoing(announced)
    } {
      val name = turn.nameOf(worker)
      val block = BlockName(turn.key, worker, target, name, isImage = true, announced.id.toString)
      executor.publishImage(block, TransferBlocks.snapshot(holding, bins))
    }

  private def write(store: StoreId, row: Row): Unit = {
    val holding = leases(store).holding
    val bin = Cells.binOf(row.key, setup.bins)
    val before = Cells.get(holding, bin, row.key)
    val after = row.effect(store, salt, before)
    if (after != before || Dice.mix(row.number) % 5 == 0) {
      if (after == 0) Cells.remove(holding, bin, row.key)
      else Cells.put(holding, bin, row.key, after)
      written(store)(row.key) = after
    }
  }

  private def commit(store: StoreId): Unit = {
    val lease = leases(store)
    lease.check()
    if (world.faults.strikes(Fault.TaskFails))
      throw new InjectedFault("the task failed before a commit")
    val turn = world.planted.turn(stage, store)
    val id = if (setup.isV2) s"i${world.nextNumber()}" else StateName.FixedId
    val name = StateName(stage.batch + 1, id)
    world.planted.beforeCommit(executor, stage, store, lease.holding, worker)
    val committed = executor.committer(store)(
      lease.holding,
      turn,
      name,
      world.planted.writer(WriterId(number, world.nextNumber()))
    )
    def frames(isImage: Boolean) =
      committed.footer.frames.filter(_.isImage == isImage).map(_.bin).mkString("(", " ", ")")
    world.trace(s"$this commits $store as $name: tails ${frames(false)}, images ${frames(true)}")
    ids(store) = id
    for {
      announced <- stage.decision.announced if announced.id.group == stage.group
      (target, bins) <- outgoing(announced)
    } {
      val block = BlockName(
        turn.key,
        worker,
        target,
        name,
        isImage = announced.mode == TransferMode.Direct,
        announced.id.toString
      )
      if (block.isImage)
        executor.publishImageNow(block, TransferBlocks.headSnapshot(lease.holding, bins))
      else executor.publishTail(block, lease.holding, bins)
    }
    world.planted.afterCommit(lease.holding)
  }

  /** The bins that an announced step will move from this worker, by target, where the target is
    * wanted on another executor.
    */
  private[simulation] def outgoing(announced: Protocol.Announced): Seq[(Int, Vector[Int])] = {
    val placement = stage.decision.batch.placement(stage.group)
    val routes = Protocol
      .routes(
        announced.step,
        stage.decision.after(stage.group),
        world.planted.executorsOf(placement)
      )
      .filter(_.source == worker)
    routes.foreach(r =>
      if (placement(r.target) == placement(worker))
        throw new Violation(s"bins are published for worker ${r.target} of the same executor")
    )
    routes.map(r => r.target -> r.bins)
  }
}
