// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.locks.ReentrantLock

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.megaphone.{Pins, RunningQuery, SparkPrivate}

import io.megaphone.checkpoint.{Parallel, Recovery}
import io.megaphone.checkpoint.planlog.PlanLog
import io.megaphone.errors.PlanRefusedException
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.pace.TransferRate
import io.megaphone.placement.Seat
import io.megaphone.plan.{Group, Plan}
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.{
  Assignment, BatchPlan, ClusterView, Committed, Drain, Pin, QueryRun, RecentCommits, Relocation,
  Report, RunFootprint, RunOrders, Tables
}
import io.megaphone.spark.checkpoint.{HadoopPlanLog, HadoopSettings, HadoopStateFiles, Lz4}
import io.megaphone.spark.conf.{MegaphoneConf, PlacementConf}
import io.megaphone.spark.wire.ShippedFaultPoints

/** What a batch's plan is rewritten with, by group. */
final case class PlannedBatch(
    tables: Map[Long, Tables],
    assignments: Map[Long, Assignment],
    broadcasts: Map[Long, Broadcast[Tables]]
)

/** Spark's host of one [[io.megaphone.runtime.QueryRun]]: tells it what Spark shows, and does with
  * Spark's means what it says. It decides nothing.
  *
  * Threads: the stream's thread plans batches and users' threads submit plans, under a lock that is
  * held while files are read and written. The threads that answer executors never wait for it: what
  * executors report is kept until the lock is free.
  */
final class QueryDriver(val application: ApplicationDriver, val query: RunningQuery)
    extends Logging {
  val runId: String = query.runId.toString
  private val session = query.session
  private val hadoopConf = SparkPrivate.hadoopConf(session)

  /** The same for executors, which may not have run a task of the query yet. */
  private[driver] lazy val fileSettings: Array[Byte] = HadoopSettings.encode(hadoopConf)

  private val planLogFiles = new HadoopPlanLog(query.checkpointRoot, hadoopConf)
  private val planLog = new PlanLog(planLogFiles)
  private val run = new QueryRun(
    runId,
    query.checkpointRoot,
    planLog,
    ShippedFaultPoints.instance,
    text => logWarning(text),
    application.placingMonitor
  )
  private val lock = new ReentrantLock
  private val reports = new ConcurrentHashMap[String, Report]() // the newest of each executor
  private val ended = new ConcurrentLinkedQueue[(Long, Long)]() // batches, and what they took in ms
  private val sweeps = new Sweeps(
    runId,
    filesOf(_),
    recovery(_),
    application.sweep(_),
    text => logWarning(text)
  )
  private val idleness = new Idleness(isNewestCommitted, application.aside(_))
  private val isPlacingAsked = new AtomicBoolean
  private val broadcasts = mutable.LinkedHashMap.empty[(Long, Long, Long), Broadcast[Tables]]

  /** The newest commits that tasks reported. */
  val commits = new RecentCommits

  /** The tables and assignments of a batch; the same when asked again. Throws
    * UnsupportedQueryException, or StepNotSealedException, which fails the batch.
    */
  def plan(batch: Long, groups: Vector[Group], batchSession: SparkSession): PlannedBatch =
    locked {
      if (snapshot.isEmpty) { start(batch, groups, batchSession); application.began(this) }
      val isOwn = query.hasLoggedOffsets(batch)
      val planned =
        run.plan(batch, groups, isOwn, idsOf(run.groups, query.checkpointIds), cluster)
      idleness.planned()
      planned.pins.foreach(pin)
      application.context.setLocalProperty(
        QueryDriver.HintProperty,
        application.nextCounter().toString
      )
      planned.sweep.foreach { order =>
        sweeps.start(order)(query.checkpointIdsAt(order.version).map(idsOf(order.groups, _)))
      }
      planned.obsoleteRecords.foreach(number => application.aside(deleteBefore(number)))
      PlannedBatch(planned.tables, planned.assignments, broadcastsOf(planned))
    }

  /** Executors have come or gone while a batch may run: pins the workers of those that are gone. */
  private[driver] def clusterChanged(): Unit = {
    try
      locked {
        asksNoMore() // now: meanwhile one waits for the files of the query, and not one a second
        run.clusterChanged(cluster).foreach(pin)
      }
    catch { case e: Throwable => asksNoMore(); throw e }
    application.changed(this)
  }

  /** Whether nobody has asked for `clusterChanged` since it was called last. Asks for it. */
  private[driver] def asksForPlacing(): Boolean = !isPlacingAsked.getAndSet(true)
  private[driver] def asksNoMore(): Unit = isPlacingAsked.set(false)

  private def cluster: ClusterView = application.clusterFor(this)

  /** Begins relocations that even the load of executors out, or of workers that are named. */
  private[driver] def spread(tolerance: Double): Vector[Relocation] = locked {
    run.see(cluster)
    if (!run.knowsLoads) throw PlanRefusedException.loadsNotKnown
    val begun = run.spread(tolerance)
    if (begun.isEmpty && run.hasRefusals) throw PlanRefusedException.evenAsRoomAllows
    if (begun.isEmpty) throw PlanRefusedException.alreadyEven
    begun
  }
  private[driver] def relocate(to: Map[Seat, String]): Vector[Relocation] = locked {
    run.see(cluster)
    run.relocate(to)
  }
  private[driver] def cancelRelocations(ids: Set[Long]): Unit = locked(run.cancelRelocations(ids))

  /** What the query has on executors. */
  def footprint: RunFootprint = run.footprint

  /** What the query has on an executor that may be about to go.
    *
    * @param report
    *   what it reported last
    */
  private[driver] def has(executor: String, report: Option[Report]): Drain.OfQuery =
    footprint.on(executor, query.name.getOrElse(runId), runId, idleness.isIdle, report)

  /** Of the executors that are there, those that have state of the query in use, or stand by, or
    * are to: all, if its workers are about to be spread.
    */
  private[driver] def needed(live: Set[String]): Set[String] =
    if (footprint.isSettling && snapshot.isDefined && !idleness.isIdle) live
    else (footprint.needed ++ run.lenders).intersect(live)

  private def isNewestCommitted: Boolean = query.latestCommittedBatch.exists(newest =>
    snapshot.flatMap(_.decision).forall(_.batch.number <= newest)
  )

  /** The protocol's state, for those who show it; None before the first batch. */
  def snapshot: Option[Protocol.State] = run.snapshot

  /** The same. Throws PlanRefusedException before the first batch. */
  def state: Protocol.State = snapshot.getOrElse(throw PlanRefusedException.notStarted)

  /** Accepts a plan, which is in the plan log when this returns. Throws StepNotSealedException if
    * it could not be written.
    */
  def submit(make: Protocol.State => Plan): Plan = {
    val plan = locked(run.submit(make))
    application.changed(this)
    plan
  }

  /** Cancels a plan: steps not sealed yet will not be. Nothing happens if it has ended. */
  def cancel(planId: String): Unit = {
    locked(run.cancel(planId))
    application.changed(this)
  }

  /** The configuration of the session that started the query. Plans are submitted under it. */
  def conf: String => Option[String] = session.sessionState.conf.getAllConfs.get

  private[driver] def reported(report: Report): Unit = {
    reports.put(report.executor.id, report)
    if (lock.tryLock())
      try takeReports()
      finally lock.unlock()
  }

  /** Spark's listener bus reports a batch, after it has ended. */
  private[driver] def batchEnded(batch: Long, durationMs: Long): Unit = {
    ended.add(batch -> durationMs)
    ()
  }

  private[driver] def committed(c: Committed): Unit = {
    run.committed(c)
    commits.add(c)
  }

  /** This run's part of the orders for an executor. */
  private[driver] def ordersFor(executor: String): Option[RunOrders] =
    run.ordersFor(executor)

  private def locked[A](body: => A): A = {
    lock.lock()
    try { takeReports(); body }
    finally
      try tellNews()
      finally lock.unlock()
  }

  private def tellNews(): Unit = {
    val news = run.takeNews()
    if (!news.isEmpty) application.placed(this, news)
  }

  private def takeReports(): Unit = {
    reports.keySet.forEach(id => Option(reports.remove(id)).foreach(run.reported))
    Iterator.continually(ended.poll()).takeWhile(_ != null).foreach { case (batch, durationMs) =>
      run.batchEnded(batch, durationMs)
    }
  }

  private def start(batch: Long, groups: Vector[Group], batchSession: SparkSession): Unit = {
    val sql = batchSession.sessionState.conf
    val conf = sql.getAllConfs.get _
    MegaphoneConf.warningAbout(sql.getAllConfs.keys).foreach(logWarning(_))
    if (planLogFiles.letsTwoAppend)
      logWarning(
        s"The store of ${planLogFiles.folder} creates files although they are there, so two " +
          "drivers of this query could both append to its plan log. Make sure that only one " +
          "runs. S3A can if fs.s3a.create.conditional.enabled is true, and the store knows " +
          "If-None-Match."
      )
    val settings = QueryRun.Settings(
      Protocol.Settings(
        windowSteps = MegaphoneConf.WindowSteps.read(conf),
        windowBytes = MegaphoneConf.MaxBytesInFlight.read(conf),
        patienceBatches = MegaphoneConf.PatienceBatches.read(conf)
      ),
      MegaphoneConf.SweepBatches.read(conf),
      math.max(1, sql.minBatchesToRetain),
      pullDeadlineMs = Some(MegaphoneConf.ImageDeadlineMs.read(conf)),
      transferRate = TransferRate.Settings(
        MegaphoneConf.TransferSlowdown.read(conf),
        MegaphoneConf.MaxBytesPerSecond.read(conf)
      ),
      placement = PlacementConf.read(conf)
    )
    val bins = MegaphoneConf.Bins.read(conf)
    val format = sql.stateStoreCheckpointFormatVersion
    val ids = idsOf(groups, query.checkpointIds)
    val first = QueryRun.FirstBatch(batch, groups, ids, format)
    run.start(
      first,
      () => query.latestCommittedBatch,
      bins,
      settings,
      makeFolders,
      recovery
    )
    query.keepCheckpointIds(run.groups.map(_.firstWorkers).max)
  }

  /** Spark's readers go by the folders of the first batch's partitions: they exist from the start,
    * and are never removed.
    */
  private def makeFolders(groups: Vector[Group]): Unit =
    for (group <- groups; operator <- group.operators) {
      val folder = new Path(s"${query.checkpointRoot}/state/${operator.id}")
      val files = CheckpointFileManager.create(folder, hadoopConf)
      val folders = (0 until group.firstWorkers).map(p => new Path(folder, p.toString))
      Parallel.Requests(folders.map(f => () => if (!files.exists(f)) files.mkdirs(f)))
    }

  /** By store, from what Spark has by operator and partition. */
  private def idsOf(
      groups: Vector[Group],
      ids: collection.Map[Long, Array[Array[String]]]
  ): Map[StoreId, VersionIds] = (for {
    group <- groups
    operator <- group.operators
    byWorker <- ids.get(operator.id).toVector
    (store, i) <- operator.stores.zipWithIndex
  } yield StoreId(operator.id, store) ->
    VersionIds(byWorker.iterator.map(_.lift(i).getOrElse("")).toVector)).toMap

  private def pin(p: Pin): Unit =
    Pins.pin(session, query, p.operator, p.stores, p.worker, p.executor.host, p.executor.id)

  private def recovery(store: StoreId) =
    new Recovery(filesOf(store), Lz4.All, Parallel.Requests)

  private def deleteBefore(number: Long): Unit =
    try planLog.deleteBefore(number)
    catch {
      case NonFatal(e) =>
        logWarning(s"Old records of query $runId's plan log could not be deleted: $e")
    }

  private def filesOf(store: StoreId): HadoopStateFiles = {
    val folder = new Path(s"${query.checkpointRoot}/state/${store.operator}")
    new HadoopStateFiles(folder, store.store, hadoopConf)
  }

  private def broadcastsOf(planned: BatchPlan): Map[Long, Broadcast[Tables]] =
    planned.tables.map { case (group, tables) => group -> broadcast(group, tables) }

  private def broadcast(group: Long, tables: Tables): Broadcast[Tables] = {
    val key = (group, tables.before.number, tables.after.number)
    val made = broadcasts.getOrElseUpdate(key, application.context.broadcast(tables))
    while (broadcasts.size > QueryDriver.BroadcastsKept * run.groups.size) {
      val (oldest, b) = broadcasts.head
      broadcasts.remove(oldest)
      b.unpersist()
    }
    made
  }
}

object QueryDriver {

  /** Local property that tells executors of news: a number, no more. */
  val HintProperty = "megaphone.counter"
  private val BroadcastsKept = 4
}
