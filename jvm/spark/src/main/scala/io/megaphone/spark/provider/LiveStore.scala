// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.megaphone.SparkPrivate

import io.megaphone.checkpoint.{Committer, Recovery, StateFiles}
import io.megaphone.format.{StateName, StoreKey, WorkerId, WriterId}
import io.megaphone.log.Due
import io.megaphone.log.KeyReader
import io.megaphone.plan.RoutingTable
import io.megaphone.runtime.{Assignment, Fetcher, Tables, WorkerTask}
import io.megaphone.spark.checkpoint.Lz4
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.executor.{ByTask, ExecutorHost, TaskAssignments, TaskThreads}
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.provider.families.ColumnFamilies
import io.megaphone.state.{Attempt, Holding}

/** Spark's host of one [[io.megaphone.runtime.WorkerTask]]: opened once for the task, for all the
  * handles that the task makes, and given back when the task ends.
  *
  * @param keys
  *   makes what reads the store's keys. It outlives the task, so it must not have its state
  */
private[provider] final class LiveStore(
    private val task: WorkerTask,
    host: ExecutorHost,
    context: StoreContext,
    keys: () => KeyReader,
    attempt: Long,
    val guard: TaskGuard
) extends WriteSession {

  /** Of all handles of the task. */
  val families: ColumnFamilies = context.takeFamilies(task.holding.binsCount)
  private var newId = StateName.FixedId

  /** Whether the commit is to write all bins whole, as Spark may ask for. */
  @volatile var withImages = false

  /** Whether its batch is done: a task that computes the same rows again, as a cross join of a
    * batch with itself does, opens the version again.
    */
  @volatile private var isCommitted = false

  @volatile private var isWritten = false // a handle to write by was made
  @volatile private var isSuperseded = false // by a later one of the task

  def key: StoreKey = task.batch.key
  def holding: Holding = task.holding
  def fetcher: Fetcher = task.fetcher

  /** By which the rows of the batch were routed. */
  def table: RoutingTable = task.batch.after

  /** What the operator looks for when it looks at all rows of a family. Another store of the task
    * may have the times.
    */
  def dueOf(family: String): Option[DueRows] = for {
    scan <- task.scanOf(family)
    at <- if (scan.store == key.id.store) Some(this) else sibling(scan.store)
    time <- at.families("scan", scan.family).timeAt(scan)
  } yield DueRows(
    Due(time, scan.until),
    at.fetcher,
    scan.opened.flatMap(sibling).map(_.fetcher)
  )

  /** Another store of the same operator in this task, if it is open. */
  private def sibling(store: String): Option[LiveStore] = {
    val other = WorkerId(key.id.copy(store = store).in(key.run), holding.worker)
    Option(LiveStore.byTask.get((attempt, other)))
  }

  /** Whether the worker's own bins were read from files. */
  def isRecovered: Boolean = task.arrivals.isRecovered

  override def checkWritable(): Unit = if (isSuperseded)
    throw new IllegalStateException(
      "The task has opened this state again, and begun anew: it computes the rows of its batch " +
        "twice, by turns. Call persist() on the batch before it is used."
    )

  override def commit(): Unit = {
    checkWritable()
    newId = if (context.hasCheckpointIds) UUID.randomUUID().toString else StateName.FixedId
    val writer = {
      val u = UUID.randomUUID()
      WriterId(u.getMostSignificantBits, u.getLeastSignificantBits)
    }
    val committed = task.commit(newId, writer, withImages)
    context.reportCommit(task.batch.version + 1)
    isCommitted = true
    // By now the operator has made all families of the store.
    host.agent.registry.useKeyReader(key, keys)
    host.tell(committed)
    host.keepWithin(holding)
  }

  /** Leaves the records to the end of the task if another thread is at work on them. */
  override def abort(): Unit =
    if (!guard.hasEnded && !isSuperseded) {
      guard.alone(LiveStore.OtherThreadMs)(holding.abort()); ()
    }

  private def end(): Unit = {
    guard.end()
    val isAlone = guard.alone(LiveStore.OtherThreadMs) {
      // Encoders of a batch that was not committed may be half-used.
      if (isCommitted) context.giveBack(families)
      task.end()
    }
    if (!isAlone) task.abandon() // what that thread still writes must hit nobody
  }

  override def commitFailure(cause: Throwable): Throwable = SparkPrivate.commitFailed(
    s"BinnedStateStore[$key, worker ${holding.worker}, version ${task.batch.version + 1}]",
    cause
  )

  override def metrics(rows: BinnedRows): StateStoreMetrics = {
    val arrivals = task.arrivals
    val incomplete = holding.incomplete
    StateStoreMetrics(
      rows.keyCount,
      rows.heapBytes,
      Map(
        OperatorMetrics.BinsIn -> arrivals.binsIn.toLong,
        OperatorMetrics.BytesIn -> (arrivals.bytesFromPeer + arrivals.bytesFromCheckpoint),
        OperatorMetrics.BinsFromPeer -> arrivals.binsFromPeer.toLong,
        OperatorMetrics.BinsFromCheckpoint -> arrivals.binsFromCheckpoint.toLong,
        OperatorMetrics.SubBins -> arrivals.subBins.toLong,
        OperatorMetrics.BinWaitMs -> arrivals.waitMs,
        OperatorMetrics.BinsOwned -> rows.binsOwned.toLong,
        OperatorMetrics.BinsIncomplete -> incomplete.size.toLong,
        OperatorMetrics.BytesToCome -> incomplete.iterator.map(_._2.bytesElsewhere).sum,
        OperatorMetrics.BytesOnDisk -> holding.bytesOnDisk,
        OperatorMetrics.ForcedSnapshots -> (if (withImages) 1L else 0L)
      ),
      if (isCommitted)
        Map(
          OperatorMetrics.SnapshotLastUploaded.withNewId(holding.worker, key.id.store) ->
            (task.batch.version + 1)
        )
      else Map.empty
    )
  }

  override def checkpointInfo: StateStoreCheckpointInfo = StateStoreCheckpointInfo(
    holding.worker,
    task.batch.version + 1,
    if (context.hasCheckpointIds) Some(newId) else None,
    context.baseId
  )
}

private[provider] object LiveStore {

  /** How long the end of a task waits for an operation of another thread. */
  private val OtherThreadMs = 5000L

  private val byTask = new ConcurrentHashMap[(Long, WorkerId), LiveStore]()
  private val guards = new ByTask[Unit, TaskGuard]

  /** The running tasks that have asked for a worker's state. */
  private val asking = ConcurrentHashMap.newKeySet[Asking]()

  private final case class Asking(worker: WorkerId, task: Long, stage: Int, stageAttempt: Int) {

    /** Whether the stage of the task runs again, for the same worker too. Spark does not end the
      * tasks of the attempt before; two tasks of one stage attempt may both be needed.
      */
    def isSuperseded: Boolean = asking.asScala.exists { other =>
      other.worker == worker && other.stage == stage && other.stageAttempt > stageAttempt
    }
  }

  /** Opens a worker's state for the current task, the first time it is asked for: what a batch must
    * agree on comes with its plan. Who asks to write while what an earlier handle of the task wrote
    * is not committed gets the state without that: the task computes the same rows again. Several
    * threads of a task wait for each other.
    */
  def open(
      host: ExecutorHost,
      worker: WorkerId,
      version: Long,
      assignment: Assignment,
      tables: Tables,
      files: StateFiles,
      context: StoreContext,
      writes: Boolean = false
  ): LiveStore = {
    val spark = TaskContext.get()
    val guard = guardOf(spark, host)
    val id = (spark.taskAttemptId(), worker)
    def isCurrent(k: LiveStore) =
      k.task.batch.version == version && !k.isCommitted && !(writes && k.isWritten)
    def openNew(known: Option[LiveStore]): LiveStore = {
      val asks =
        Asking(worker, spark.taskAttemptId(), spark.stageId(), spark.stageAttemptNumber())
      if (asking.add(asks)) {
        spark.addTaskCompletionListener[Unit] { _ => asking.remove(asks); () }
        spark.addTaskFailureListener((_, cause) => host.agent.taskFailed(cause))
      }
      val attempt = new Attempt(
        spark.taskAttemptId(),
        () => !spark.isInterrupted() && !spark.isCompleted() && !asks.isSuperseded
      )
      val recovery =
        new Recovery(files, Lz4.All, host.parallel, host.budget, context.checkLoaded)
      val store = WorkerTask.Store(worker.store.id, files, recovery, Lz4)
      val settings = WorkerTask.Settings(
        context.conf(MegaphoneConf.LeaseTimeoutMs),
        context.conf(MegaphoneConf.TailDeadlineMs),
        context.conf(MegaphoneConf.ImageDeadlineMs),
        Committer.Limits(framesMax = context.conf(MegaphoneConf.FramesMax))
      )
      val keys = () => context.keyReader(tables.after.bins)
      host.agent.registry.offerKeyReader(worker.store, keys)
      val task = WorkerTask.open(
        host.agent,
        store,
        worker.worker,
        version,
        assignment,
        tables,
        attempt,
        settings
      )
      task.fetcher.readBy(keys)
      TaskAssignments.wanted(spark, assignment.group).foreach(task.fetcher.watch)
      host.publishQueued(worker.store.run)
      // The lease is the task's, however often it opens: an earlier store of it gives it back.
      val live =
        try new LiveStore(task, host, context, keys, id._1, guard)
        catch { case e: Throwable if known.isEmpty => task.end(); throw e }
      known.foreach(_.isSuperseded = true)
      byTask.put(id, live)
      if (known.isEmpty) // runs at once if the task has ended meanwhile
        spark.addTaskCompletionListener[Unit](_ => Option(byTask.remove(id)).foreach(_.end()))
      live
    }
    guard.synchronized {
      val known = Option(byTask.get(id))
      val state = known.filter(isCurrent).getOrElse(openNew(known))
      if (writes) state.isWritten = true
      state
    }
  }

  private def guardOf(task: TaskContext, host: ExecutorHost): TaskGuard =
    guards.getOrMake(task, ()) {
      val own = if (host.writesBesideTasks) None else TaskThreads.of(task)
      new TaskGuard(own, host.agent.taskFailed)
    }
}
