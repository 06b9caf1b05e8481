// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, Executors}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.megaphone.{ActiveQueries, Cluster, RunningQuery}

import io.megaphone.runtime.{Committed, Held, Orders, Report}
import io.megaphone.runtime.QueryRun
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.wire.MessageBytes

/** The driver's side of the plugin: one per application. Knows the running queries, and answers the
  * executors. Any thread.
  */
final class ApplicationDriver(val context: SparkContext) extends Logging {
  import ApplicationDriver._

  private val queries = new ConcurrentHashMap[String, Known]()

  /** The provider of each run that has its state on another than ours. */
  private val elsewhere = new ConcurrentHashMap[String, String]()
  private val held = new ConcurrentHashMap[String, Held]()
  private val counter = new AtomicLong()
  private val news = new Object

  private val background = Executors.newSingleThreadExecutor { task =>
    val thread = new Thread(task, "megaphone-sweep")
    thread.setDaemon(true)
    thread
  }

  /** Runs something off every batch's path, one after the other. Nobody waits for it: what it
    * throws is logged.
    */
  private[spark] def inBackground(work: => Unit): Unit = background.execute { () =>
    try work
    catch { case NonFatal(e) => logInfo(s"Work in the background was given up: $e") }
  }

  def stop(): Unit = { background.shutdownNow(); () }

  /** A number greater than all before: what carries an older one is ignored. */
  def nextCounter(): Long = counter.incrementAndGet()

  /** The driver of a running query, made when it is first asked for. Throws InvalidConfException if
    * a deadline is invalid.
    *
    * @param session
    *   the one that the query's batches run in
    */
  def queryOf(query: RunningQuery, session: SparkSession): QueryDriver = {
    val run = query.runId.toString
    queries.values.removeIf(k => !k.isRunning && k.query.runId != run)
    def made = Known(
      new QueryDriver(this, query),
      MegaphoneConf.ImageDeadlineMs.read(session.sessionState.conf.getAllConfs.get)
    )
    queries.computeIfAbsent(run, _ => made).query
  }

  /** The control of a run; None where it has planned no batch with state on our provider. */
  def query(runId: String): Option[QueryDriver] =
    Option(queries.get(runId)).filter(_.isRunning).map(_.query)

  /** The controls of all runs that go on. */
  def running: Vector[QueryDriver] = known.map(_.query)

  private def known: Vector[Known] = queries.values.asScala.filter(_.isRunning).toVector

  /** The control of a run that has planned a batch; for one that is about to plan its first, waits
    * until it has.
    */
  def queryWithPlan(runId: String): Option[QueryDriver] = news.synchronized {
    def planned = query(runId).filter(_.snapshot.isDefined)
    val deadline = System.nanoTime + ApplicationDriver.FirstPlanMs * 1000000L
    var found = planned
    while (
      found.isEmpty && System.nanoTime < deadline && ActiveQueries.isNearFirstBatch(
        UUID.fromString(runId)
      )
    ) {
      news.wait(
        ApplicationDriver.LookMs
      ) // Spark does not tell when a query begins to wait for data: look now and then
      found = planned
    }
    found
  }

  /** A query has planned its first batch. */
  private[spark] def firstPlanned(): Unit = news.synchronized(news.notifyAll())

  /** Notes that a run has its state on another provider, and logs it once. */
  def runsOn(runId: String, provider: String): Unit =
    if (elsewhere.put(runId, provider) == null)
      logInfo(
        s"Query $runId keeps its state on $provider, which its checkpoint or its configuration names; it runs there, and its state does not move."
      )

  /** The other provider that a run has its state on. */
  def otherProviderOf(runId: String): Option[String] = Option(elsewhere.get(runId))

  def ended(runId: String): Unit = { queries.remove(runId); elsewhere.remove(runId); () }

  /** What each executor that lives reported last that it keeps. */
  def heldByExecutor: Vector[(String, Held)] = {
    val live = Cluster.executors(context).map(_.id)
    held.keySet.removeIf(id => !live.contains(id))
    live.flatMap(id => Option(held.get(id)).map(id -> _))
  }

  /** Answers an executor. Shares Spark's RPC threads: short. */
  def receive(bytes: Array[Byte]): Array[Byte] = MessageBytes.decode(bytes) match {
    case r: Report =>
      held.put(r.executor.id, r.held)
      val counter = nextCounter() // before the queries are listed: one that starts now is newer
      val active = known
      active.foreach(_.query.reported(r))
      MessageBytes.encode(ordersFor(r.executor.id, counter, active))
    case c: Committed => query(c.worker.store.run).foreach(_.committed(c)); null
    case other =>
      logWarning(s"A message of an unknown kind came from an executor: ${other.getClass.getName}");
      null
  }

  private def ordersFor(executor: String, counter: Long, active: Vector[Known]): Orders = {
    val each = active.map { k =>
      val orders = k.query.withRun(run => QueryRun.orders(counter, Seq(run), executor))
      val deadline = Some(k.pullDeadlineMs)
      orders.copy(runs = orders.runs.transform((_, run) => run.copy(pullDeadlineMs = deadline)))
    }
    Orders(counter, each.flatMap(_.runs).toMap, each.flatMap(_.duties))
  }
}

object ApplicationDriver {

  /** A query that has planned a batch.
    *
    * @param pullDeadlineMs
    *   how long executors wait for a block that prepares a replica
    */
  private final case class Known(query: QueryDriver, pullDeadlineMs: Long) {
    def isRunning: Boolean = query.query.isActive
  }

  private val FirstPlanMs = 60000L
  private val LookMs = 100L

  @volatile private var instance: Option[ApplicationDriver] = None

  /** The controller of the running application. */
  def active: Option[ApplicationDriver] = instance.filterNot(_.context.isStopped)
  def activate(controller: ApplicationDriver): Unit = instance = Some(controller)
  def deactivate(): Unit = { instance.foreach(_.stop()); instance = None }
}
