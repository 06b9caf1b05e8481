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
  * Threads look several times a second, while queries run:
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
  private val listed = new ConcurrentHashMap[String, ExecutorAddress]() // as Spark lists them
  private val gone = ConcurrentHashMap.newKeySet[String]() // Spark may list them a while
  private val barred = ConcurrentHashMap.newKeySet[Excluded]()
  private val noticed = ConcurrentHashMap.newKeySet[String]() // that Spark decommissions
  private val others = ConcurrentHashMap.newKeySet[String]() // of other resource profiles
  private val headcount = new Headcount(context, () => registered)
  private val drains = new Drains(nextCounter)
  private val sparkReleases =
    new SparkReleases(context, headcount, excludedOf, () => listener.shuffles)
  private val releases = new Releases(drains, sparkReleases)
  private val emptiesDecommissioned = PlacementConf.OnDecommission.read(conf.getOption)
  private val decommissionMs = decommissionTimeoutMs(conf.getOption)
  private val holds = Option.when(
    Allocation.isDynamic(context) && PlacementConf.HoldState.read(conf.getOption)
  )(new Holds(context))

  private var looks = 0L // while an executor is to be emptied
  val listener = new ClusterListener(this)
  private val timer = Executors.newScheduledThreadPool(2, Parallel.daemons("megaphone-members"))
  timer.scheduleWithFixedDelay(() => lookAround(), LookMs, LookMs, TimeUnit.MILLISECONDS)
  // Apart, for who asks a cluster manager may wait for minutes.
  timer.scheduleWithFixedDelay(() => goOnReleasing(), LookMs, LookMs, TimeUnit.MILLISECONDS)

  def stop(): Unit = { timer.shutdownNow(); () }

  /** An executor is there, and runs so many tasks at once. Queries run on those of Spark's default
    * resource profile only, so others take no state.
    */
  def added(executor: String, cores: Int, isDefault: Boolean): Unit =
    if (isDefault) {
      gone.remove(executor)
      this.cores.put(executor, math.max(1, cores))
      headcount.came()
    } else { others.add(executor); () }

  /** An executor is gone: the queries place its workers anew, before their tasks run again. Spark
    * may say so twice, and of one that never came.
    */
  def lost(executor: String): Unit = {
    gone.add(executor)
    val wasThere = Seq(cores, listed).map(_.keySet.remove(executor)).contains(true)
    val wasNoticed = noticed.remove(executor)
    if (!others.remove(executor)) {
      if (drains.lost(executor)) headcount.leaves(executor)
      else if (wasThere && !wasNoticed) headcount.lost(executor)
      placeAnew(_.footprint.hasStandbys)
    }
  }

  /** How many executors have died, and are to be replaced by the cluster manager. */
  private[driver] def owed: Int = headcount.owed

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

  /** A task has committed state on an executor, which so runs tasks of queries: a stage of a query
    * may have a resource profile of its own.
    */
  def committedOn(executor: ExecutorAddress): Unit = {
    if (!others.isEmpty) others.remove(executor.id)
    answersAt(executor)
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
    val there = Cluster.executors(context, listed.values.asScala)
    there.foreach(e => listed.put(e.id, e))
    gone.retainAll(there.map(_.id).asJava)
    val all = there.filterNot(e => gone.contains(e.id) || others.contains(e.id))
    val live = all.iterator.map(_.id).toSet
    Seq(reports, peers, listed).foreach(_.keySet.removeIf(id => !live(id)))
    all.map(e => peers.getOrDefault(e.id, e))
  }

  /** The executors, and which of them take state. */
  def cluster: ClusterView = {
    val all = executors
    val draining = drains.draining // first: one whose time is up meanwhile is among both
    val excluded = all.filter(isExcluded).map(_.id)
    val leaving = Cluster.leaving(context, all.map(_.id)) ++ drains.overdue ++ excluded
    ClusterView(all, leaving, draining, cores.asScala.toMap)
  }

  private def excludedOf(executors: Set[String]): Set[String] =
    executors.filter(id => Option(listed.get(id)).exists(isExcluded))

  private def isExcluded(executor: ExecutorAddress): Boolean =
    barred.contains(ExcludedExecutor(executor.id)) || barred.contains(ExcludedHost(executor.host))

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

  /** Asks the cluster manager for so many executors in all. Throws PlanRefusedException if that is
    * less than there are, or if it cannot be asked.
    */
  def request(total: Int): Unit = headcount.request(total)

  /** All drains, as they are now. */
  def drainsNow: Vector[Drain] = {
    forgetDrainsOfLost()
    drains.all(look)
  }

  /** The drains that have not ended. */
  def drainsUnderWay: Vector[Drain] = {
    val open = drains.open
    if (open.isEmpty) Vector.empty else drainsNow.filter(d => open(d.executor))
  }

  /** Whether an executor is to be emptied. */
  def isDraining(executor: String): Boolean = drains.open(executor)

  /** Spark's listener bus may drop the loss of an executor, or tell it before the drain began. */
  private def forgetDrainsOfLost(): Unit = {
    val live = executors.iterator.map(_.id).toSet
    drains.open.filterNot(live).foreach(id => if (drains.lost(id)) headcount.leaves(id))
  }

  /** What an executor still has that somebody may need. */
  private def look(executor: String): Drain.OfExecutor = {
    val report = Option(reports.get(executor))
    val queries = running().filter(_.snapshot.isDefined).map(_.has(executor, report))
    Drain.OfExecutor.of(report, queries)
  }

  private def lookAround(): Unit = attempt {
    val live = registered
    attempt(noticeDecommissions(live))
    attempt(if (drains.open.nonEmpty) {
      forgetDrainsOfLost()
      // A query that plans no batches is not told that another standby is whole.
      looks += 1
      if (looks % PlaceEvery == 0) placeAnew(_.footprint.hasStandbys)
    })
    attempt(holds.foreach { holds =>
      def neededBy(query: QueryDriver) =
        try query.needed(live)
        catch { case NonFatal(_) => live } // what is not known may be needed
      holds.hold(running().foldLeft(Set.empty[String])(_ ++ neededBy(_)), live)
    })
  }

  private def goOnReleasing(): Unit = attempt {
    attempt(if (drains.open.nonEmpty) {
      sparkReleases.look()
      releases.tick(look)
    })
    headcount.tell()
  }

  /** Whatever is thrown costs this look: the timer would never call again. */
  private def attempt(work: => Unit): Unit =
    try work
    catch {
      case _: InterruptedException => Thread.currentThread.interrupt()
      case e: Throwable => logInfo(s"A look at the executors failed: $e")
    }

  private def noticeDecommissions(live: Set[String]): Unit = {
    val going = live.filter(e => !noticed.contains(e) && Allocation.isDecommissioned(context, e))
    going.foreach { executor =>
      noticed.add(executor)
      if (emptiesDecommissioned && !drains.cordoned(executor)) {
        logInfo(s"Spark decommissions executor $executor, so its state goes elsewhere.")
        drains.decommissioned(executor, decommissionMs)
      }
    }
    if (going.nonEmpty) placeAnew(_ => true)
  }

  private def registered: Set[String] =
    Allocation.registered(context).filterNot(others.contains)
}

private object Membership {
  private val LookMs = 250L
  private val PlaceEvery = 4L

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
