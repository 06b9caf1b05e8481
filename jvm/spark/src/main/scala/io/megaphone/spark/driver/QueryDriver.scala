// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.megaphone.{Cluster, Pins, RunningQuery, SparkPrivate}

import io.megaphone.checkpoint.Settled
import io.megaphone.checkpoint.planlog.LogRecord
import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.Placement
import io.megaphone.plan.{Group, Plan, RoutingTable}
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.{Assignment, Committed, Incoming, Outgoing, Report, Tables}
import io.megaphone.spark.checkpoint.{HadoopPlanLog, StateSweeper}
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.errors.{
  PlanRefusedException, StepNotSealedException, UnsupportedQueryException
}
import io.megaphone.spark.wire.FaultPoints
import io.megaphone.transfer.ReplicaDuty

/** What a batch's plan is rewritten with, by group. */
final case class BatchPlan(
    tables: Map[Long, Tables],
    facts: Map[Long, Assignment],
    broadcasts: Map[Long, Broadcast[Tables]]
)

/** The control of one run of one query: feeds the protocol with what happens, and does what it
  * commands.
  *
  * Under this object's monitor: the stream's thread plans batches, users' threads submit plans, RPC
  * threads report. The state is immutable, and may be looked at by any thread.
  */
final class QueryDriver(controller: ApplicationDriver, val query: RunningQuery) extends Logging {
  val runId: String = query.runId.toString
  private val session = query.session
  private val hadoopConf = SparkPrivate.hadoopConf(session)
  private val planLog = new HadoopPlanLog(query.checkpointRoot, hadoopConf)
  private val broadcasts = mutable.LinkedHashMap.empty[(Long, Long, Long), Broadcast[Tables]]
  private val ranOn = mutable.Map.empty[(Long, Int), String] // (operator, worker) → executor
  private val wanted = mutable.Map.empty[Long, Vector[String]] // group → executors
  private val pinned = mutable.Map.empty[(Long, Int), String]
  private var executors = Vector.empty[ExecutorAddress]
  @volatile private var state: Option[Protocol.State] = None
  private val sweeper = new StateSweeper(query.checkpointRoot, hadoopConf)
  private var sweepBatches =
    0L // this and the next are set by the first batch, from the configuration that the query was started with
  private var batchesToRetain = 0

  /** What tasks told of their commits: for `migrations`. */
  val journal = new RecentCommits

  /** The tables and facts of a batch; the same when asked again. Throws UnsupportedQueryException,
    * or StepNotSealedException, which fails the batch.
    */
  def plan(batch: Long, asked: Vector[Group], batchSession: SparkSession): BatchPlan =
    synchronized {
      if (state.isEmpty) { start(batch, asked, batchSession); controller.firstPlanned() }
      val groups =
        asked.map(g => state.get.group(g.id)) // as the plan log has them: families in their places
      seeExecutors()
      val decision =
        feed(
          Protocol.BatchPlanning(
            Protocol.Batch(
              batch,
              query.hasLoggedOffsets(batch),
              names(groups, query.checkpointIds),
              placement(groups)
            )
          )
        ).collectFirst {
          case Protocol.HandOut(d) => d
          case Protocol.Fail(reason) => throw new StepNotSealedException(reason)
        }.get
      groups.foreach(g => pin(g, decision.after(g.id).workers))
      if (state.get.history.sealAt(batch - 1).isDefined) FaultPoints.at(FaultPoints.DriverSettled)
      controllerHint()
      sweepAt(decision)
      planOf(decision, groups)
    }

  /** The protocol's state, for those who show it; None before the first batch. */
  def snapshot: Option[Protocol.State] = state

  /** Accepts a plan, which is in the plan log when this returns. Throws StepNotSealedException
    * where it could not be written.
    */
  def submit(make: Protocol.State => Plan): Plan = synchronized {
    val current = state.getOrElse(throw PlanRefusedException.notStarted)
    val plan = make(current)
    confirm(feed(Protocol.PlanSubmitted(plan)))
    plan
  }

  /** Cancels a plan: steps not sealed yet will not be. Nothing happens where it has ended. */
  def cancel(planId: String): Unit = synchronized {
    val current = state.getOrElse(throw PlanRefusedException.notStarted)
    if (!current.history.plans.exists(_.id == planId))
      throw PlanRefusedException.unknownPlan(planId)
    if (current.history.open.exists(_.id == planId)) confirm(feed(Protocol.PlanCancelled(planId)))
  }

  def executorOf(operator: Long, worker: Int): Option[String] = synchronized(
    ranOn.get((operator, worker))
  )

  private[spark] def reported(report: Report): Unit = synchronized {
    report.ready.foreach { case (copy, version) =>
      if (copy.store.run == runId) feed(Protocol.ReplicaReady(copy, version, report.executor.id))
    }
    report.refused.foreach { case (copy, reason) =>
      if (copy.store.run == runId) feed(Protocol.ReplicaRefused(copy, reason, report.executor.id))
    }
  }

  private[spark] def committed(c: Committed): Unit = {
    synchronized(ranOn((c.operator, c.worker)) = c.executor.id)
    journal.add(c)
  }

  private[spark] def dutiesOf(executor: String): Vector[ReplicaDuty] = synchronized {
    state.toVector.flatMap(Protocol.duties(_, addressOf.get)).collect {
      case (e, duty) if e == executor => duty
    }
  }

  /** The newest version that is settled: that which the batch last planned reads; 0 before the
    * first.
    */
  private[spark] def settled: Long = synchronized(
    state.flatMap(_.decision).fold(0L)(_.batch.number)
  )
  private[spark] def liveSteps: Set[String] = synchronized(
    state.fold(Set.empty[String])(Protocol.liveSteps(_).map(_.toString))
  )

  private def start(batch: Long, groups: Vector[Group], batchSession: SparkSession): Unit = {
    val history = planLog.read()
    /* Looked at after the log was read: what another run does from here on, the start record's
     * number shows. */
    if (query.latestCommittedBatch.exists(_ >= batch))
      throw new StepNotSealedException(
        s"Batch $batch of the query is committed already: another run of the query is at work, and this one must not go on."
      )
    if (history.isEmpty && batch > 0)
      throw UnsupportedQueryException.missingPlanLog(query.checkpointRoot)
    val format = batchSession.sessionState.conf.stateStoreCheckpointFormatVersion
    val configured = MegaphoneConf.Bins.read(batchSession.sessionState.conf.getAllConfs.get)
    val known = history.first match {
      case None => groups
      case Some(first) =>
        if (!isSame(first.groups, groups))
          throw UnsupportedQueryException.changedOperators(describe(first.groups), describe(groups))
        if (history.starts.last.checkpointFormat == 2 && format == 1)
          throw UnsupportedQueryException.formatDowngrade
        if (first.bins != configured)
          logWarning(
            s"The checkpoint of query $runId has ${first.bins} bins and keeps them; the configuration ${MegaphoneConf.Bins.key}=$configured is for new queries."
          )
        history.starts.last.groups.zip(groups).map { case (before, now) =>
          before.withFamiliesOf(now)
        }
    }
    val conf = batchSession.sessionState.conf.getAllConfs.get _
    val settings = Protocol.Settings(
      windowSteps = MegaphoneConf.WindowSteps.read(conf),
      patienceBatches = MegaphoneConf.PatienceBatches.read(conf)
    )
    sweepBatches = MegaphoneConf.SweepBatches.read(conf)
    batchesToRetain = math.max(1, batchSession.sessionState.conf.minBatchesToRetain)
    state = Some(Protocol.start(runId, known, settings))
    makeFolders(known)
    try
      confirm(
        feed(Protocol.RunStarting(batch, format, history.first.fold(configured)(_.bins), history))
      )
    catch { case e: Throwable => state = None; throw e }
    query.keepCheckpointIds(known.map(_.firstWorkers).max)
  }

  /** Spark's readers go by the folders of the first batch's partitions: they exist from the start,
    * and are never removed.
    */
  private def makeFolders(groups: Vector[Group]): Unit =
    for (group <- groups; operator <- group.operators) {
      val folder = new Path(s"${query.checkpointRoot}/state/${operator.id}")
      val files = CheckpointFileManager.create(folder, hadoopConf)
      (0 until group.firstWorkers)
        .map(p => new Path(folder, p.toString))
        .filterNot(files.exists)
        .foreach(files.mkdirs)
    }

  private def isSame(one: Vector[Group], other: Vector[Group]): Boolean =
    one.map(_.operators.size) == other
      .map(_.operators.size) && one.flatMap(_.operators).zip(other.flatMap(_.operators)).forall {
      case (a, b) => a.isSame(b)
    }

  private def describe(groups: Vector[Group]): String =
    groups.map(_.operators.map(o => s"${o.id} ${o.name}").mkString("(", ", ", ")")).mkString(" ")

  /** By operator and store, from what Spark has by operator and partition. */
  private def names(
      groups: Vector[Group],
      ids: collection.Map[Long, Array[Array[String]]]
  ): Map[(Long, String), Vector[String]] =
    (for {
      group <- groups
      operator <- group.operators
      byWorker <- ids.get(operator.id).toVector
      (store, i) <- operator.stores.zipWithIndex
    } yield (operator.id, store) -> byWorker.iterator.map(_.lift(i).getOrElse("")).toVector).toMap

  /** Of each executor, its block manager's address. */
  private def addressOf: Map[String, ExecutorAddress] = executors.map(e => e.id -> e).toMap

  private def seeExecutors(): Unit = {
    val now = Cluster.executors(controller.context)
    executors.filterNot(e => now.exists(_.id == e.id)).foreach { lost =>
      feed(Protocol.ExecutorLost(lost.id))
      pinned.filterInPlace((_, e) => e != lost.id)
    }
    executors = now
  }

  private def placement(groups: Vector[Group]): Map[Long, Vector[String]] = {
    val live = executors.map(_.id)
    groups.foreach { group =>
      val s = state.get
      val planned =
        s.history.open.iterator.flatMap(_.steps.getOrElse(group.id, Vector.empty)).map(_.workers)
      val workers = (planned ++ Iterator(s.history.tableAt(group.id, Long.MaxValue).workers)).max
      val before = wanted.getOrElse(group.id, Vector.empty)
      wanted(group.id) =
        Placement.assign(workers, w => ranOn.get((group.id, w)).orElse(before.lift(w)), live)
    }
    wanted.toMap
  }

  /** Pins what is not known to run where it is wanted. */
  private def pin(group: Group, workers: Int): Unit =
    for {
      (executor, worker) <- wanted.getOrElse(group.id, Vector.empty).zipWithIndex.take(workers)
      operator <- group.operators
      if !pinned.get((operator.id, worker)).contains(executor) || !ranOn
        .get((operator.id, worker))
        .forall(_ == executor)
      address <- executors.find(_.id == executor)
    } {
      Pins.pin(session, query, operator.id, operator.stores, worker, address.host, executor)
      pinned((operator.id, worker)) = executor
    }

  /** Rule 28: what the oldest version that is retained needs is in the commit log and in the plan
    * log, also of runs before this one.
    */
  private def sweepAt(decision: Protocol.Decision): Unit = {
    val newest = Settled(decision.batch.number, decision.before, decision.batch.names)
    val version =
      newest.version - batchesToRetain + 1 // of the oldest batch that the commit log still has
    if (newest.version % sweepBatches == 0 && version > 1) {
      val (groups, history) = (state.get.groups, state.get.history)
      def settled(at: Long, names: Map[(Long, String), Vector[String]]) =
        Settled(at, groups.map(g => g.id -> history.tableAt(g.id, at - 1)).toMap, names)
      controller.inBackground {
        query.checkpointIdsAt(version).map(names(groups, _)) match {
          /* What that batch changed is told by the version before it, which under checkpoint format
           * v1 can be read without ids. */
          case Some(ids) =>
            sweeper.sweep(
              groups,
              if (ids.isEmpty) settled(version - 1, ids) else settled(version, ids),
              newest
            )
          case None =>
            logInfo(
              s"The commit log of query $runId does not have batch ${version - 1} any more: no old files are looked for."
            )
        }
      }
    }
  }

  private def controllerHint(): Unit =
    controller.context.setLocalProperty(QueryDriver.HintProperty, controller.nextCounter().toString)

  private def planOf(decision: Protocol.Decision, groups: Vector[Group]): BatchPlan = {
    val tables = groups.map(g => g.id -> Tables(decision.before(g.id), decision.after(g.id))).toMap
    val facts = groups.map(g => g.id -> factsOf(decision, g, tables(g.id))).toMap
    BatchPlan(tables, facts, tables.map { case (group, t) => group -> broadcast(group, t) })
  }

  private def factsOf(decision: Protocol.Decision, group: Group, tables: Tables): Assignment = {
    val addresses = addressOf
    val incoming = decision.sealedSteps.find(_.id.group == group.id).map { step =>
      val sources = step.step.moves.map(m => tables.before.workerOf(m.bin)).distinct
      Incoming(
        step.id.toString,
        sources.flatMap(s => ranOn.get((group.id, s)).flatMap(addresses.get).map(s -> _)).toMap
      )
    }
    val outgoing = decision.announced.filter(_.id.group == group.id).map { a =>
      val routes = Protocol.routes(
        a.step,
        tables.after,
        decision.batch.placement.getOrElse(group.id, Vector.empty)
      )
      Outgoing(a.id.toString, a.mode, a.since == decision.batch.number, routes)
    }
    val ids = decision.batch.names.filter { case ((operator, _), _) =>
      group.operators.exists(_.id == operator)
    }
    Assignment(
      runId,
      group.id,
      group.operators,
      decision.batch.number,
      ids,
      incoming,
      outgoing,
      tables.after.toString
    )
  }

  private def broadcast(group: Long, tables: Tables): Broadcast[Tables] = {
    val key = (group, tables.before.number, tables.after.number)
    val made = broadcasts.getOrElseUpdate(key, controller.context.broadcast(tables))
    while (broadcasts.size > QueryDriver.BroadcastsKept * state.get.groups.size) {
      val (oldest, b) = broadcasts.head; broadcasts.remove(oldest); b.unpersist()
    }
    made
  }

  private def confirm(commands: Vector[Protocol.Command]): Unit = commands.foreach {
    case Protocol.Fail(reason) => throw new StepNotSealedException(reason); case _ => ()
  }

  /** Feeds one event, appends what is asked for, and gives the other commands. */
  private def feed(event: Protocol.Event): Vector[Protocol.Command] = {
    val (next, commands) = Protocol(state.get, event)
    state = Some(next)
    commands.flatMap {
      case Protocol.Append(record) =>
        record match {
          case LogRecord.Cancelled(plan, Some(reason)) =>
            logWarning(s"Plan $plan of query $runId has failed. $reason")
          case LogRecord.Sealed(_, _, steps, _) =>
            for (s <- steps; reason <- s.noRoom)
              logWarning(
                s"Step ${s.step} of query $runId goes on without some of its moves. $reason"
              )
          case _ => ()
        }
        feed(append(record))
      case other => Vector(other)
    }
  }

  private def append(record: LogRecord): Protocol.Event = {
    val number = state.get.history.nextNumber
    try {
      val isSeal = record.isInstanceOf[LogRecord.Sealed]
      if (isSeal) FaultPoints.at(FaultPoints.DriverSealing)
      if (planLog.append(number, record)) {
        if (isSeal) FaultPoints.at(FaultPoints.DriverSealed); Protocol.Appended(record)
      } else Protocol.NotAppended(record, Some(planLog.readRecord(number)))
    } catch {
      case NonFatal(e) =>
        logWarning(s"Record $number could not be appended to the plan log of query $runId.", e)
        Protocol.NotAppended(record, None)
    }
  }

  /** The table that the newest batch of a group has. */
  def currentTable(group: Long): RoutingTable = synchronized(
    state.getOrElse(throw PlanRefusedException.notStarted).history.tableAt(group, Long.MaxValue)
  )

  /** The configuration that plans are submitted under: that of the session which has started the
    * query.
    */
  def conf: String => Option[String] = session.sessionState.conf.getAllConfs.get
}

object QueryDriver {

  /** Local property that tells executors of news: a number, no more. */
  val HintProperty = "megaphone.counter"
  private val BroadcastsKept = 4
}
