// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{Allocation, Cluster, SparkPrivate}

import io.megaphone.checkpoint.Parallel
import io.megaphone.errors.PlanRefusedException
import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.Member
import io.megaphone.runtime.{ClusterView, Drain, Drains, Held, Releases, Report}
import io.megaphone.spark.conf.PlacementConf

/** The executors of an application: which are there, what they have, and which are to go.
  *
  * A thread looks several times a second, while queries run:
  *   1. An executor that Spark decommissions is emptied: there is no event for it.
  *   1. Executors that are to be ended go a step further: see [[io.megaphone.runtime.Releases]].
  *   1. Dynamic allocation is told which executors have state, or are to get some, so that it does
  *      not take them for idle.
  *
  * Threads: any.
  *
  * @param running
  *   the drivers of all queries that run
  * @param placeAnew
  *   has the queries that are asked for place their workers anew, soon
  */
final class Membership(
    context: SparkContext,
    running: () => Vector[QueryDriver],
    nextCounter: () => Long,
    placeAnew: (QueryDriver => Boolean) => Unit
) extends Logging {
  import Membership._

  private val conf = SparkPrivate.conf(context)
  private val reports = new ConcurrentHashMap[String, Report]() // the newest of each executor
  private val cores = new ConcurrentHashMap[String, Int]() // of each executor
  private val peers = new ConcurrentHashMap[String, ExecutorAddress]() // by executor
  private val gone = ConcurrentHashMap.newKeySet[String]() // Spark may list them a while
  private val barred = ConcurrentHashMap.newKeySet[Excluded]()
  private val noticed = ConcurrentHashMap.newKeySet[String]() // that Spark decommissions
  private val drains = new Drains(nextCounter)
  private val releases = new Releases(drains, SparkReleases)
  private val emptiesDecommissioned = PlacementConf.OnDecommission.read(conf.getOption)
  private val decommissionMs = decommissionTimeoutMs(conf.getOption)
  private val holds = Option.when(
    Allocation.isDynamic(context) && PlacementConf.HoldState.read(conf.getOption)
  )(new Holds(context))

  val listener = new ClusterListener(this)
  private val timer =
    Executors.newSingleThreadScheduledExecutor(Parallel.daemons("megaphone-members"))
  timer.scheduleWithFixedDelay(() => lookAround(), LookMs, LookMs, TimeUnit.MILLISECONDS)

  def stop(): Unit = { timer.shutdownNow(); () }

  /** An executor is there, and runs so many tasks at once. */
  def added(executor: String, cores: Int): Unit = {
    this.cores.put(executor, math.max(1, cores))
    ()
  }

  /** An executor is gone: the queries place its workers anew, before their tasks run again. */
  def lost(executor: String): Unit = {
    gone.add(executor)
    cores.remove(executor)
    drains.lost(executor)
    placeAnew(_.hasStandbys)
  }

  /** Spark gives an executor no more tasks, for too many failed there, or gives it some again. */
  def excluded(what: Excluded, isExcluded: Boolean): Unit = {
    if (isExcluded) barred.add(what) else barred.remove(what)
    placeAnew(_ => true)
  }

  /** An executor reports. */
  def reported(report: Report): Unit = {
    reports.put(report.executor.id, report)
    answersAt(report.executor)
  }

  /** An executor answers others at an address. */
  def answersAt(executor: ExecutorAddress): Unit = { peers.put(executor.id, executor); () }

  /** What each live executor keeps, as it reported last. Forgets executors that are gone. */
  def held: Vector[(Member, Held)] =
    members.flatMap(m => Option(reports.get(m.id)).map(m -> _.held))

  /** The executors that are registered now, with the addresses that they have told. Forgets the
    * others.
    */
  def executors: Vector[ExecutorAddress] = {
    val listed = Cluster.executors(context)
    gone.retainAll(listed.map(_.id).asJava)
    val all = listed.filterNot(e => gone.contains(e.id))
    val live = all.iterator.map(_.id).toSet
    Seq(reports, peers).foreach(_.keySet.removeIf(id => !live(id)))
    all.map(e => peers.getOrDefault(e.id, e))
  }

  /** The executors, and which of them take state. */
  def cluster: ClusterView = {
    val all = executors
    val draining = drains.draining // first: one whose time is up meanwhile is among both
    val excluded =
      all.filter(e => barred.contains(Id(e.id)) || barred.contains(Host(e.host))).map(_.id)
    val leaving = Cluster.leaving(context, all.map(_.id)) ++ drains.overdue ++ excluded
    ClusterView(all, leaving, draining, cores.asScala.toMap)
  }

  /** The executors, as placement sees them. */
  def members: Vector[Member] = cluster.members

  /** Begins to empty an executor. Called again, it goes on. Throws PlanRefusedException if it is to
    * be ended, and cannot be.
    */
  def drain(executor: String, timeoutMs: Option[Long], release: Boolean): Drain = {
    if (release && !Allocation.canEnd(context)) throw PlanRefusedException.cannotRelease
    drains.start(executor, timeoutMs, release)
    forgetDrainsOfLost()
    placeAnew(_ => true)
    drains.get(executor, look).get
  }

  /** Lets an executor keep its workers. Throws PlanRefusedException if it is not to be emptied, or
    * gets no more tasks.
    */
  def undrain(executor: String): Drain = {
    drains.cancel(executor)
    placeAnew(_ => true)
    drains.get(executor, look).get
  }

  /** All drains, as they are now. */
  def drainsNow: Vector[Drain] = {
    forgetDrainsOfLost()
    drains.all(look)
  }

  /** Whether an executor is to be emptied. */
  def isDraining(executor: String): Boolean = drains.open(executor)

  /** Spark's listener bus may drop the loss of an executor, or tell it before the drain began. */
  private def forgetDrainsOfLost(): Unit = {
    val live = executors.iterator.map(_.id).toSet
    drains.open.filterNot(live).foreach(drains.lost)
  }

  /** What an executor still has that somebody may need. */
  private def look(executor: String): Drain.OfExecutor = {
    val report = Option(reports.get(executor))
    Drain.OfExecutor(
      running()
        .filter(_.snapshot.isDefined)
        .map(q => q.has(executor, report.flatMap(_.states.get(q.runId)).getOrElse(0))),
      report.fold(0)(_.held.replicas),
      report.fold(0)(_.held.blocks),
      report.fold(0L)(_.obeyed)
    )
  }

  private def lookAround(): Unit =
    try {
      if (running().nonEmpty) noticeDecommissions()
      if (drains.open.nonEmpty) { forgetDrainsOfLost(); releases.tick(look) }
      holds.foreach(_.hold(cores.keySet.asScala.filter(e => running().exists(_.needs(e)))))
    } catch { case NonFatal(e) => logInfo(s"A look at the executors failed: $e") }

  private def noticeDecommissions(): Unit = {
    val going = cores.keySet.asScala.toVector
      .filter(Allocation.isDecommissioned(context, _))
      .filterNot(noticed.contains)
    going.foreach { executor =>
      noticed.add(executor)
      if (emptiesDecommissioned && !drains.cordoned(executor)) {
        logInfo(s"Spark decommissions executor $executor, so its state goes elsewhere.")
        drains.decommissioned(executor, decommissionMs)
      }
    }
    noticed.retainAll(cores.keySet)
    if (going.nonEmpty) placeAnew(_ => true)
  }

  private object SparkReleases extends Releases.Host {
    override def cordon(executor: String): Unit = {
      logInfo(s"Executor $executor gets no more tasks: it is to be ended.")
      Allocation.cordon(context, executor)
    }

    override def useOf(executor: String): Option[String] =
      if (Allocation.isBusy(context, executor)) Some("A task runs there.")
      else if (Allocation.hasOutput(context, listener.shuffles, executor))
        Some("A job that runs needs what its tasks have left there.")
      else
        Allocation
          .wanted(context)
          .filter(_ > remaining)
          .map(n => s"Spark's dynamic allocation wants $n executors, and would start another.")

    override def end(executor: String): Unit = Allocation.end(context, executor, remaining)

    /** How many executors get tasks. */
    private def remaining: Int = {
      val all = Cluster.executors(context).map(_.id)
      all.size - Cluster.leaving(context, all).size
    }
  }
}

object Membership {
  private val LookMs = 250L

  /** What Spark excludes. */
  sealed trait Excluded
  final case class Id(executor: String) extends Excluded
  final case class Host(name: String) extends Excluded

  /** Spark's own keys, in seconds: when an executor that is decommissioned ends at the latest. */
  private val DecommissionKeys = Seq(
    "spark.executor.decommission.killInterval",
    "spark.executor.decommission.forceKillTimeout",
    "spark.kubernetes.executor.terminationGracePeriodSeconds"
  )

  private def decommissionTimeoutMs(get: String => Option[String]): Option[Long] = {
    import org.apache.spark.network.util.JavaUtils.timeStringAsSec
    DecommissionKeys.flatMap(key => get(key)).map(timeStringAsSec(_) * 1000L).minOption
  }
}

/** Tells dynamic allocation which executors have state.
  *
  * Threads: one at a time.
  */
private final class Holds(context: SparkContext) {
  private lazy val rdd = Allocation.newRdd(context)
  private var held = Set.empty[String]

  /** From now on, these executors are held, and no others. */
  def hold(executors: collection.Set[String]): Unit = {
    val now = executors.toSet
    (now -- held).foreach(Allocation.hold(context, rdd, _, isHeld = true))
    (held -- now).foreach(Allocation.hold(context, rdd, _, isHeld = false))
    held = now
  }
}
