// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.{Recovery, StateFiles}
import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.format.{
  Chain, Compression, Compressions, Footer, ReplicaKey, StateName, StoreKey, WriterId
}
import io.megaphone.plan.TransferMode
import io.megaphone.protocol.Protocol
import io.megaphone.state.{Holding, Lease, StoreBatch}
import io.megaphone.transfer.{BlockName, ReplicaDuty, Sources, TransferBlocks}

/** The places where the simulated query does wrong when a bug is planted; with none they do
  * nothing.
  */
final class Planted(world: World, bug: Option[Bug]) {
  private val setup = world.setup

  def is(b: Bug): Boolean = bug.contains(b)

  def turn(stage: Stage, store: StoreId): StoreBatch = {
    val turn = stage.turn(store)
    val isStale = is(Bug.StaleTables) || is(Bug.GroupSplit) && store.operator != stage.group
    if (isStale) turn.copy(after = turn.before) else turn
  }

  /** Whether a batch that Spark replays is taken for this run's own. */
  def isOwnReplay(newestOffsetAtStart: Long, batch: Long): Boolean =
    is(Bug.OffsetLogSeenEarly) && newestOffsetAtStart < batch

  def recovery(files: StateFiles): Recovery = new Recovery(files, Compressions(Compression.None)) {
    override protected def checkTable(footer: Footer, tableHash: Long): Unit =
      if (!is(Bug.PlanLogTrusted)) super.checkTable(footer, tableHash)
    override protected def checkHasNotLeft(footers: Vector[Footer], bin: Int): Unit =
      if (!is(Bug.PlanLogTrusted)) super.checkHasNotLeft(footers, bin)
  }

  /** What is known of the workers' executors where blocks are published. */
  def executorsOf(placement: Vector[String]): Vector[String] =
    if (is(Bug.PublishesToItself)) Vector.empty else placement

  def attemptId(task: TaskAttempt): Long =
    if (is(Bug.ZombieShares)) -1000L * (task.stage.batch + 1) - task.worker - 1 else task.number
  def writer(own: WriterId): WriterId = if (is(Bug.WritersAlike)) WriterId(0, 0) else own

  def beforeOpen(executor: Executor, lease: Lease, turn: StoreBatch, sources: Sources): Unit =
    bug match {
      case Some(Bug.RelabelByVersion) =>
        for (
          source <- sourcesOf(turn, lease.holding.worker);
          there <- executor.registry.holding(turn.key, source)
        )
          if (there.bins.nonEmpty && there.head.isEmpty)
            there.restart(turn.nameOf(source), there.lineage)
      case Some(Bug.TailOfOtherAttempt) =>
        for (source <- sourcesOf(turn, lease.holding.worker))
          rename(
            executor.registry
              .copy(ReplicaKey(turn.key, source, lease.holding.worker, sources.step)),
            turn.nameOf(source)
          )
      case Some(Bug.LastHeadForAccepted) =>
        val (holding, name) = (lease.holding, turn.nameOf(lease.holding.worker))
        if (holding.head.exists(head => head.version == name.version && head != name)) {
          holding.settle(); holding.restart(name, holding.lineage)
        }
      case _ => ()
    }

  def beforeDuty(executor: Executor, duty: ReplicaDuty): Unit = if (is(Bug.TailOfOtherAttempt)) {
    val copy = executor.registry.copy(duty.key)
    copy.foreach { c =>
      val id =
        world.checkpoint.commits
          .get(c.base.version - 1)
          .flatMap(_.get(StoreId(duty.key.store.operator, duty.key.store.store)))
          .flatMap(_.lift(duty.key.source))
      id.foreach(i => rename(copy, StateName(c.base.version, i)))
    }
  }

  def otherBlock(
      block: BlockName,
      blocks: collection.Map[BlockName, Array[Byte]]
  ): Option[Array[Byte]] =
    if (!is(Bug.TailOfOtherAttempt) || block.isImage) None
    else
      blocks.collectFirst {
        case (b, bytes)
            if b != block && b
              .copy(name = block.name) == block && b.name.version == block.name.version =>
          bytes
      }

  def missingBlock(block: BlockName): Option[Array[Byte]] = if (
    !is(Bug.MissingIsEmpty) || !block.isImage
  ) None
  else {
    val bins = for {
      driver <- world.drivers.toVector
      decision <- driver.state.decision.toVector
      step <- decision.announced ++ decision.sealedSteps if step.id.toString == block.step
      move <- step.step.moves if move.target == block.target && decision
        .before(step.id.group)
        .workerOf(move.bin) == block.source
    } yield move.bin
    val empty = bins.distinct.map(bin =>
      TransferBlocks.BinSnapshot(bin, Chain.Empty, 0, () => Array.emptyByteArray)
    )
    Some(
      new TransferBlocks(Compressions(Compression.None))
        .image(TransferBlocks.Snapshot(block.source, block.name, empty))
    )
  }

  def beforeCommit(
      executor: Executor,
      stage: Stage,
      store: StoreId,
      holding: Holding,
      worker: Int
  ): Unit = if (is(Bug.UnsettledImage)) {
    val turn = stage.turn(store)
    for {
      announced <- stage.decision.announced
      if announced.id.group == stage.group && announced.mode == TransferMode.Prepared && announced.since == stage.batch
      target <- announced.step.moves
        .filter(m => turn.after.workerOf(m.bin) == worker)
        .map(_.target)
        .distinct if target != worker
    } {
      val bins = announced.step.moves
        .filter(m => turn.after.workerOf(m.bin) == worker && m.target == target)
        .map(_.bin)
      val snapshots = bins.map { bin =>
        val log = holding.log(bin)
        val image = log.image()
        TransferBlocks.BinSnapshot(bin, holding.chain(bin), log.keyCount.toLong, () => image)
      }
      executor.publishImageNow(
        BlockName(
          turn.key,
          worker,
          target,
          turn.nameOf(worker),
          isImage = true,
          announced.id.toString
        ),
        TransferBlocks.Snapshot(worker, turn.nameOf(worker), snapshots)
      )
    }
  }

  def afterCommit(holding: Holding): Unit =
    if (is(Bug.CompactionAboveSettled)) holding.touched.foreach { bin =>
      holding.log(bin).settle(); holding.log(bin).compact()
    }

  def beforeBatch(decision: Protocol.Decision): Unit = if (is(Bug.CloseDropsOutgoing))
    for {
      group <- setup.groups; executor <- world.executors;
      worker <- decision.after(group.id).workers until decision.before(group.id).workers
    } {
      executor.dropBlocks(b =>
        b.source == worker && b.key.operator >= group.id && b.key.operator < group.id + 10
      )
      for (
        store <- setup.storesOf(group.id); run <- executor.registry.runs;
        holding <- executor.registry.holding(StoreKey(run, store.operator, store.store), worker)
      )
        holding.bins.toVector.foreach(holding.drop)
    }

  /** Appends a record, or gives what stands at its number. */
  def append(log: MemoryPlanLog, number: Long, record: LogRecord): Option[LogRecord] =
    record match {
      case _: LogRecord.Sealed if is(Bug.SealAnyway) => log.append(log.size, record)
      case _ => log.append(number, record)
    }

  def history(log: MemoryPlanLog): History = {
    val history = log.history
    if (!is(Bug.VoidSealsKept)) history
    else
      history.copy(seals =
        mutable.LinkedHashMap
          .from(history.records.collect { case s: LogRecord.Sealed => s.batch -> s })
          .values
          .toVector
          .sortBy(_.batch)
      )
  }

  private def sourcesOf(turn: StoreBatch, worker: Int): Set[Int] =
    turn.after.binsOf(worker).map(turn.before.workerOf).toSet - worker

  private def rename(copy: Option[Holding], name: StateName): Unit =
    copy.foreach(c =>
      if (c.base.version == name.version && c.base != name) c.restart(name, Vector.empty)
    )

}
