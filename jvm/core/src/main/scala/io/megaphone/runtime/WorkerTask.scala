// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.TimeUnit

import io.megaphone.checkpoint.{Committer, Recovery, StateFiles}
import io.megaphone.format.{Compression, StateName, StoreId, WorkerId, WriterId}
import io.megaphone.plan.AfterCommit
import io.megaphone.state.{Attempt, Holding, Lease, ReplicaKey, StoreBatch, Traffic}
import io.megaphone.transfer.{BlockKind, BlockName, TransferBlocks}

/** The task's part of the runtime: one worker's state in one task of a batch.
  *
  * Given the assignment and the tables of the batch's plan.
  *   1. `open` takes the lease and opens the worker's state (rules 10 to 13). It queues images for
  *      the steps that are announced with this batch and have some. ''Dies:'' the next attempt
  *      opens the state, here or elsewhere.
  *   1. The task reads and writes the holding. ''Dies:'' the same.
  *   1. `commit` writes the delta file, then moves memory forward, then publishes blocks for
  *      announced steps. A block that cannot be published is missing, and the commit goes on.
  *      ''Dies before the file is durable:'' nothing happened. ''Dies after:'' the next attempt
  *      commits under another id, and the file is an orphan.
  *   1. `end` undoes the uncommitted records, and gives the lease back.
  *
  * Threads: one, the task's. Called twice: `commit` throws; `end` does nothing.
  */
final class WorkerTask private (
    agent: ExecutorAgent,
    lease: Lease,
    val batch: StoreBatch,
    assignment: Assignment,
    val arrivals: Arrivals,
    opener: Opener,
    committer: Committer,
    isOnStandby: Boolean
) {
  private val openSince = agent.clock.nanoTime

  def holding: Holding = lease.holding
  def id: WorkerId = WorkerId(batch.key, holding.worker)

  /** Commits the batch under a new id.
    *
    * @param newId
    *   Spark's new checkpoint id, or the fixed one under checkpoint format v1
    * @param isWhole
    *   whether the commit writes an image of every bin
    * @return
    *   the report for the driver. Throws DetachedLeaseException if a newer attempt has the lease,
    *   and what the files throw; the holding is then as it was
    */
  def commit(newId: String, writer: WriterId, isWhole: Boolean = false): Committed = {
    lease.check()
    if (batch.isStep) agent.faults.at(FaultPoints.StepCommitting)
    agent.committing(batch.key, holding)
    val name = StateName(batch.version + 1, newId)
    val committed = committer(holding, batch, name, writer, isWhole)
    lease.check()
    if (batch.isStep) agent.faults.at(FaultPoints.StepCommitted)
    if (isOnStandby) agent.faults.at(FaultPoints.StandbyCommitted)
    publishHead(name)
    holding.cameBetween = Traffic() // this commit tells it
    val hasMoved = arrivals.isAny || holding.leaving.nonEmpty
    val incomplete = holding.incomplete
    val tellsSizes = agent.census.isDue(id, hasMoved)
    Committed(
      id,
      batch.version,
      agent.address,
      holding.keyCount,
      holding.liveBytes,
      committed.bytes,
      arrivals,
      Option.when(tellsSizes)(BinSizes.of(holding)),
      TimeUnit.NANOSECONDS.toMillis(agent.clock.nanoTime - openSince),
      incomplete.size,
      incomplete.iterator.map(_._2.bytesElsewhere).sum
    )
  }

  /** What the operator looks for when it looks at all rows of a family of this store. */
  def scanOf(family: String): Option[DueScan] = assignment.scans.get((batch.key.id, family))

  /** Brings what the task needs of bins that are incomplete. */
  val fetcher: Fetcher = opener.fetcher(lease, batch.key, arrivals)

  /** Undoes the uncommitted records, and gives the lease back. */
  def end(): Unit = lease.end()

  /** Gives the lease back and drops the state, which a thread of this task may still write to. */
  def abandon(): Unit = lease.abandon()

  /** Publishes blocks of the new head for announced steps: images or tails, as the mode says. */
  private def publishHead(name: StateName): Unit = for {
    step <- assignment.outgoing
    route <- step.routes
    if route.source == holding.worker
    if route.bins.forall(bin => holding.has(bin) && !holding.isLeaving(bin))
  } {
    def block(kind: BlockKind) =
      BlockName(batch.key, route.source, route.target, name, kind, step.step)
    step.mode.publishesAfterCommit match {
      case AfterCommit.Images =>
        val snapshot = TransferBlocks.headSnapshot(holding, route.bins)
        agent.publisher.publish(block(BlockKind.Image), snapshot)
      case AfterCommit.Offers =>
        agent.publisher.publishOffer(block(BlockKind.Offer), holding, route.bins)
      case AfterCommit.Tails =>
        agent.publisher.publishTail(block(BlockKind.Tail), holding, route.bins)
    }
  }

  /** Queues images of the settled state, for steps that are announced with this batch. */
  private def queueImages(): Unit = for {
    step <- assignment.outgoing
    if step.hasImagesNow
    route <- step.routes
    if route.source == holding.worker
    if route.bins.forall(bin => holding.has(bin) && !holding.isAdopted(bin))
  } {
    val block = BlockName(
      batch.key,
      route.source,
      route.target,
      holding.base,
      BlockKind.Image,
      step.step
    )
    agent.publisher.queueImage(block, TransferBlocks.snapshot(holding, route.bins))
  }

  /** Announces the bins that steps on demand will take, and queues surveys of them. */
  private def announceExports(): Unit = for {
    step <- assignment.outgoing
    if step.mode.isOnDemand
    route <- step.routes
    if route.source == holding.worker
  } {
    val key = ReplicaKey.forStep(batch.key, route.source, route.target, step.step)
    agent.registry.exports.announce(key, route.bins)
    agent.surveys.queue(key, holding, route.bins)
  }
}

object WorkerTask {

  /** @param leaseTimeoutMs
    *   how long a task waits for another running attempt to release the same state
    * @param tailDeadlineMs
    *   how long a task waits for the last tail of a prepared step
    * @param imageDeadlineMs
    *   how long a task waits for an image
    */
  final case class Settings(
      leaseTimeoutMs: Long,
      tailDeadlineMs: Long,
      imageDeadlineMs: Long,
      limits: Committer.Limits
  )

  /** A store's files, and the means to read and write them. */
  final case class Store(
      id: StoreId,
      files: StateFiles,
      recovery: Recovery,
      compression: Compression
  )

  /** Opens a worker's state for a batch.
    *
    * Throws IllegalStateException if the plan is another batch's, LeaseTimeoutException if another
    * running attempt keeps the state, DamagedFileException, MissingFileException or
    * PlanLogMismatchException if the checkpoint cannot be read. The lease is given back then.
    *
    * @param version
    *   the version that the task asks for
    */
  def open(
      agent: ExecutorAgent,
      store: Store,
      worker: Int,
      version: Long,
      assignment: Assignment,
      tables: Tables,
      attempt: Attempt,
      settings: Settings
  ): WorkerTask = {
    if (assignment.batch != version)
      throw new IllegalStateException(
        s"The plan of batch ${assignment.batch} asked for version $version of the state of " +
          s"${store.id}; the batch stops rather than read it."
      )
    val batch = assignment.storeBatch(store.id, tables)
    val id = WorkerId(batch.key, worker)
    val lease = agent.registry.lease(id, tables.after.bins, attempt, settings.leaseTimeoutMs)
    try {
      // A task that was here before has left its commit as the head.
      val isOnStandby = lease.holding.head.isEmpty && lease.holding.bins.nonEmpty
      if (isOnStandby) agent.faults.at(FaultPoints.StandbyOpening)
      if (batch.isStep) agent.faults.at(FaultPoints.StepOpening)
      val sources = Sources.of(assignment, settings.tailDeadlineMs, settings.imageDeadlineMs)
      val opener = new Opener(
        agent.registry,
        store.recovery,
        agent.blocks,
        agent.peers,
        math.min(settings.imageDeadlineMs, ImpatientPeers.AnswerMs),
        agent.clock
      )
      val arrivals = opener.open(lease, batch, sources)
      if (batch.isStep) agent.faults.at(FaultPoints.StepOpened)
      val committer = new Committer(agent.sent(id, store.files), store.compression, settings.limits)
      val task =
        new WorkerTask(agent, lease, batch, assignment, arrivals, opener, committer, isOnStandby)
      task.queueImages()
      task.announceExports()
      task
    } catch { case e: Throwable => lease.end(); throw e }
  }
}
