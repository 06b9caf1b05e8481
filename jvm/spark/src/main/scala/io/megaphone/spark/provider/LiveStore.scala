// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.megaphone.SparkPrivate

import io.megaphone.checkpoint.{Committer, Recovery, StateFiles}
import io.megaphone.format.{StateName, StoreKey, WriterId}
import io.megaphone.plan.TransferMode
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.{Arrivals, Assignment, Committed, Opener, Tables}
import io.megaphone.spark.checkpoint.Lz4
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.provider.families.ColumnFamilies
import io.megaphone.spark.wire.FaultPoints
import io.megaphone.state.{Attempt, Holding, Lease, StoreBatch}
import io.megaphone.transfer.{BlockName, Sources, TransferBlocks}

/** A worker's state in a task of a running batch: opened once for the task, whatever number of
  * handles it makes, and given back when the task ends.
  */
private[provider] final class LiveStore(
    val lease: Lease,
    val turn: StoreBatch,
    facts: Assignment,
    opened: Arrivals,
    runtime: ExecutorHost,
    files: StateFiles,
    context: StoreContext
) extends WriteSession {

  /** Of all handles of the task. */
  val families: ColumnFamilies = context.takeFamilies(lease.holding.binsCount)
  private var newId = StateName.FixedId
  private var bytesWritten = 0L

  /** Whether the commit is to write all bins whole, as Spark may ask for. */
  @volatile var withImages = false

  /** Whether its batch is done: a task that computes the same rows again, as a cross join of a
    * batch with itself does, opens the version anew.
    */
  @volatile private var isCommitted = false

  def holding: Holding = lease.holding

  /** Whether the worker's own bins were read from files. */
  def isRecovered: Boolean = opened.isRecovered

  override def checkWritable(): Unit = ()

  /** Writes the delta file, then moves memory forward, then tells whoever waits. */
  override def commit(): Unit = {
    lease.check()
    newId = if (context.hasCheckpointIds) UUID.randomUUID().toString else StateName.FixedId
    val limits = Committer.Limits(framesMax = context.conf(MegaphoneConf.FramesMax))
    val writer = {
      val u = UUID.randomUUID(); WriterId(u.getMostSignificantBits, u.getLeastSignificantBits)
    }
    if (turn.isStep) FaultPoints.at(FaultPoints.StepCommitting)
    val committed = new Committer(files, Lz4, limits)(
      holding,
      turn,
      StateName(turn.version + 1, newId),
      writer,
      withImages
    )
    lease.check()
    bytesWritten = committed.bytes
    if (turn.isStep) FaultPoints.at(FaultPoints.StepCommitted)
    publish()
    context.reportCommit(turn.version + 1)
    isCommitted = true
    tell()
    runtime.keepWithin(holding)
  }

  override def abort(): Unit = holding.abort()

  /** For the next task. Of one that has not committed, a thread that feeds Python may still be at
    * work.
    */
  private def giveBackFamilies(): Unit = if (isCommitted) context.giveBack(families)

  override def commitFailure(cause: Throwable): Throwable =
    SparkPrivate.commitFailed(
      s"BinnedStateStore[${turn.key}, worker ${holding.worker}, version ${turn.version + 1}]",
      cause
    )

  override def metrics(rows: BinnedRows): StateStoreMetrics = StateStoreMetrics(
    rows.keyCount,
    rows.heapBytes,
    Map(
      OperatorMetrics.BinsIn -> opened.binsIn.toLong,
      OperatorMetrics.BytesIn -> (opened.bytesFromPeer + opened.bytesFromCheckpoint),
      OperatorMetrics.BinsFromPeer -> opened.binsFromPeer.toLong,
      OperatorMetrics.BinsFromCheckpoint -> opened.binsFromCheckpoint.toLong,
      OperatorMetrics.BinWaitMs -> opened.waitNanos / 1000000L,
      OperatorMetrics.BinsOwned -> rows.binsOwned.toLong,
      OperatorMetrics.BytesOnDisk -> holding.bytesOnDisk,
      OperatorMetrics.ForcedSnapshots -> (if (withImages) 1L else 0L)
    ),
    if (isCommitted)
      Map(
        OperatorMetrics.SnapshotLastUploaded
          .withNewId(holding.worker, turn.key.store) -> (turn.version + 1)
      )
    else Map.empty
  )

  override def checkpointInfo: StateStoreCheckpointInfo =
    StateStoreCheckpointInfo(
      holding.worker,
      turn.version + 1,
      if (context.hasCheckpointIds) Some(newId) else None,
      context.baseId
    )

  /** Blocks for steps to come: tails of what was prepared before, images for `direct`. */
  private def publish(): Unit =
    for (
      step <- facts.outgoing;
      Protocol.Route(source, target, bins) <- step.routes
      if source == holding.worker && bins.forall(b => holding.has(b) && !holding.isLeaving(b))
    ) {
      def block(isImage: Boolean) =
        BlockName(turn.key, source, target, holding.head.get, isImage, step.step)
      if (step.mode == TransferMode.Direct)
        runtime.peers.publish(
          block(isImage = true),
          runtime.handOver.image(TransferBlocks.headSnapshot(holding, bins))
        )
      else runtime.peers.publish(block(isImage = false), runtime.handOver.tail(holding, bins))
    }

  private def tell(): Unit = runtime.tell(
    Committed(
      turn.key.run,
      turn.key.operator,
      turn.key.store,
      holding.worker,
      turn.version,
      runtime.address,
      holding.keyCount,
      bytesWritten,
      opened.binsIn,
      opened.binsRelabelled,
      opened.binsFromPeer,
      opened.binsFromCheckpoint,
      opened.bytesFromPeer,
      opened.bytesFromCheckpoint,
      opened.waitNanos / 1000000L,
      opened.isRecovered
    )
  )
}

private[provider] object LiveStore {

  private val byTask = new ConcurrentHashMap[(Long, StoreKey, Int), LiveStore]()

  /** Opens a worker's state for the current task, the first time it is asked for; rule 10: what a
    * batch must agree on comes with its plan.
    */
  def open(
      runtime: ExecutorHost,
      key: StoreKey,
      worker: Int,
      version: Long,
      facts: Assignment,
      tables: Tables,
      files: StateFiles,
      context: StoreContext
  ): LiveStore = {
    if (facts.batch != version)
      throw new IllegalStateException(
        s"The plan of batch ${facts.batch} asked for version $version of the state of operator ${key.operator}; the batch stops rather than read it."
      )
    val task = TaskContext.get()
    val id = (task.taskAttemptId(), key, worker)
    val known = Option(byTask.get(id))
    known.filterNot(_.isCommitted).getOrElse {
      val attempt =
        new Attempt(task.taskAttemptId(), () => !task.isInterrupted() && !task.isCompleted())
      val lease = runtime.registry.lease(
        key,
        worker,
        tables.after.bins,
        attempt,
        context.conf(MegaphoneConf.LeaseTimeoutMs)
      )
      // The lease is the task's, however often it opens.
      if (known.isEmpty) task.addTaskCompletionListener[Unit] { _ =>
        Option(byTask.remove(id)).foreach(_.giveBackFamilies()); lease.end()
      }
      val turn =
        StoreBatch(key, version, tables.before, tables.after, idsOf(facts, key, worker, context))
      val sources = facts.incoming
        .fold(Sources.None)(i =>
          Sources(
            i.step,
            i.addresses,
            context.conf(MegaphoneConf.TailDeadlineMs),
            context.conf(MegaphoneConf.ImageDeadlineMs)
          )
        )
      if (turn.isStep) FaultPoints.at(FaultPoints.StepOpening)
      val recovery =
        new Recovery(files, Lz4.All, runtime.together, runtime.budget, context.checkLoaded)
      val opened = new Opener(runtime.registry, recovery, runtime.handOver, runtime.peers)
        .open(lease, turn, sources)
      if (turn.isStep) FaultPoints.at(FaultPoints.StepOpened)
      publishImages(runtime, lease.holding, turn, facts)
      val state = new LiveStore(lease, turn, facts, opened, runtime, files, context)
      byTask.put(id, state)
      state
    }
  }

  /** Ids of all workers; a worker that is new with this batch has the one that Spark was given for
    * it.
    */
  private def idsOf(
      facts: Assignment,
      key: StoreKey,
      worker: Int,
      context: StoreContext
  ): Vector[String] = {
    val ids = facts.ids.getOrElse((key.operator, key.store), Vector.empty)
    if (ids.isEmpty) ids else ids.padTo(worker + 1, context.baseId.getOrElse(StateName.FixedId))
  }

  /** Steps announced with this batch: images of the settled state, in the background. */
  private def publishImages(
      runtime: ExecutorHost,
      holding: Holding,
      turn: StoreBatch,
      facts: Assignment
  ): Unit =
    for {
      step <- facts.outgoing
      if step.withImage && step.mode == TransferMode.Prepared
      Protocol.Route(source, target, bins) <- step.routes
      if source == holding.worker && bins.forall(b => holding.has(b) && !holding.isAdopted(b))
    } runtime.publish(
      BlockName(turn.key, source, target, holding.base, isImage = true, step.step),
      TransferBlocks.snapshot(holding, bins)
    )
}
