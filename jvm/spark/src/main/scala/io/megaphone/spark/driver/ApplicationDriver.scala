// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.UUID
import java.util.concurrent.{
  ConcurrentHashMap, Executor, Executors, RejectedExecutionException, Semaphore, TimeUnit
}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{ActiveQueries, RunningQuery}

import io.megaphone.checkpoint.Parallel
import io.megaphone.placement.Load
import io.megaphone.runtime.{
  ClusterView, Committed, FileSettings, FileSettingsAsked, Orders, PlacingNews, Report
}
import io.megaphone.spark.wire.MessageBytes

/** The driver's side of the plugin, one per application: knows the running queries, and answers the
  * executors.
  *
  * Threads: any.
  */
final class ApplicationDriver(
    val context: SparkContext,
    turnMs: Long = ApplicationDriver.TurnMs
) extends Logging {
  import ApplicationDriver._

  private val queries = new ConcurrentHashMap[String, QueryDriver]()

  /** The provider of each run that has its state on another than ours. */
  private val elsewhere = new ConcurrentHashMap[String, String]()
  private val counter = new AtomicLong()
  private val news = new Object

  /** Queries place their workers one after the other. */
  private[driver] val placingMonitor = new Object
  @volatile private var observers = Vector.empty[Observer]

  // Both have a thread for each piece of work: one may wait for the files of its query.
  private val sweeping = Executors.newCachedThreadPool(Parallel.daemons("megaphone-sweep"))
  private val others = Executors.newCachedThreadPool(Parallel.daemons("megaphone-driver"))
  private val turns = new Semaphore(SweepsAtOnce)

  /** The executors of the application. */
  val membership: Membership =
    new Membership(context, () => running, () => nextCounter(), placeAnew)

  /** Runs a sweep in the background. Some are at work at the same time. One whose turn does not
    * come goes on nevertheless, for those before it hang. The end of the application waits for a
    * sweep, a while. Returns whether it has begun, as `aside` does.
    */
  private[spark] def sweep(work: => Unit): Boolean = run(
    sweeping, {
      val isInTurn = turns.tryAcquire(turnMs, TimeUnit.MILLISECONDS)
      try work
      finally if (isInTurn) turns.release()
    }
  )

  /** Runs work in the background, so that no batch waits for it, nor another query's work. An
    * exception is logged and otherwise ignored. Returns whether the work has begun: it does not if
    * no thread is to be had, or once the application ends.
    */
  private[driver] def aside(work: => Unit): Boolean = run(others, work)

  private def run(threads: Executor, work: => Unit): Boolean = {
    val logged: Runnable = () =>
      try work
      catch {
        case _: InterruptedException => // `stop` tells it
        case NonFatal(e) => logInfo(s"Work in the background failed: $e")
      }
    try { threads.execute(logged); true }
    catch {
      case _: RejectedExecutionException => false // `stop` was called
      case e: OutOfMemoryError =>
        logWarning(s"The driver has no thread for work in the background; it is tried again: $e")
        false
    }
  }

  /** From now on, an observer is told what happens to all queries. */
  def observe(observer: Observer): Unit = synchronized(observers :+= observer)

  private def tell(event: Observer => Unit): Unit = observers.foreach { observer =>
    try event(observer)
    catch { case NonFatal(e) => logWarning("What happened to a query could not be shown.", e) }
  }

  /** A plan of a query was submitted or cancelled. */
  private[driver] def changed(query: QueryDriver): Unit = tell(_.changed(query))

  /** Workers of a query have lost their executor, or relocations have ended. */
  private[driver] def placed(query: QueryDriver, news: PlacingNews): Unit =
    tell(_.placed(query, news))

  /** Ends all threads. Sweeps get a while to end: that of a run of one batch has only just begun
    * when the run has ended.
    */
  def stop(): Unit = stop(SweepsEndMs)

  private[driver] def stop(sweepsEndMs: Long): Unit = {
    membership.stop()
    others.shutdownNow()
    sweeping.shutdown()
    val haveEnded =
      try sweeping.awaitTermination(sweepsEndMs, TimeUnit.MILLISECONDS)
      catch { case _: InterruptedException => Thread.currentThread.interrupt(); false }
    if (!haveEnded) {
      sweeping.shutdownNow()
      logInfo(
        s"The application ends, and sweeps that have not ended within $sweepsEndMs ms are cut; " +
          "the next sweep of their queries finds the rest."
      )
    }
  }

  /** Returns a number greater than all before it. Executors ignore orders with an older number. */
  def nextCounter(): Long = counter.incrementAndGet()

  /** The driver of a running query, made when it is first asked for. */
  def queryOf(query: RunningQuery): QueryDriver = {
    // Spark may not have said yet, or never says, that they have ended. Who is told may read their
    // files, for which this query must not wait.
    val over = queries.values.asScala.filter(q => !q.query.isActive && q.query.runId != query.runId)
    over.toVector.foreach(q => aside(ended(q.runId, q.query.error)))
    queries.computeIfAbsent(query.runId.toString, _ => new QueryDriver(this, query))
  }

  /** The driver of a run; None if the run has planned no batch with state on our provider. */
  def query(runId: String): Option[QueryDriver] =
    Option(queries.get(runId)).filter(_.query.isActive)

  /** The drivers of all active runs. */
  def running: Vector[QueryDriver] = queries.values.asScala.filter(_.query.isActive).toVector

  /** The drivers of all active runs that have planned a batch with state. */
  def planned: Vector[QueryDriver] = running.filter(_.snapshot.isDefined)

  /** The driver of a run that has planned a batch; None if there is none. If the run is about to
    * plan its first batch, waits for it, up to a minute.
    */
  def queryWithPlan(runId: String): Option[QueryDriver] = news.synchronized {
    def planned = query(runId).filter(_.snapshot.isDefined)
    val deadline = System.nanoTime + FirstPlanMs * 1000000L
    var found = planned
    while (
      found.isEmpty && System.nanoTime < deadline && ActiveQueries.isNearFirstBatch(
        UUID.fromString(runId)
      )
    ) {
      news.wait(LookMs) // Spark does not report when a query begins to wait for data
      found = planned
    }
    found
  }

  /** A query plans its first batch, and has its state. */
  private[driver] def began(query: QueryDriver): Unit = {
    tell(_.began(query))
    news.synchronized(news.notifyAll())
    changed(query)
  }

  /** Notes that a run has its state on another provider, and logs it once. */
  def runsOn(runId: String, provider: String): Unit =
    if (elsewhere.put(runId, provider) == null) {
      logInfo(
        s"Query $runId keeps its state on $provider, which its checkpoint or its configuration " +
          "names; it runs there, and its state does not move."
      )
      ActiveQueries.all
        .find(_.runId.toString == runId)
        .foreach(q => tell(_.elsewhere(runId, q.id.toString, q.name, provider)))
    }

  /** The other provider that has the state of a run; None if there is none. */
  def otherProviderOf(runId: String): Option[String] = Option(elsewhere.get(runId))

  /** A batch of a run has ended, and took so long from its trigger on. */
  def batchEnded(runId: String, batch: Long, durationMs: Long): Unit =
    query(runId).foreach { query =>
      query.batchEnded(batch, durationMs)
      changed(query)
    }

  /** A run is over, after an error or without: forgets it. */
  def ended(runId: String, error: Option[String]): Unit = {
    if (elsewhere.remove(runId) != null) tell(_.endedElsewhere(runId, error))
    Option(queries.remove(runId)).foreach(query => tell(_.ended(query, error)))
  }

  /** Has the queries that are asked for place their workers anew, soon. */
  private def placeAnew(isAsked: QueryDriver => Boolean): Unit = running
    .filter(query => isAsked(query) && query.asksForPlacing())
    .foreach(query => if (!aside(query.clusterChanged())) query.asksNoMore())

  /** The executors, and what other queries have on them, as one query sees them. */
  private[driver] def clusterFor(query: QueryDriver): ClusterView =
    membership.cluster.copy(elsewhere =
      Load.byExecutor(running.filterNot(_ eq query).flatMap(_.footprint.loads))
    )

  /** Answers an executor's report. Runs on Spark's RPC threads, so it must return quickly. */
  def receive(bytes: Array[Byte]): Array[Byte] = MessageBytes.decode(bytes) match {
    case r: Report =>
      membership.reported(r)
      running.foreach(_.reported(r))
      val orders = Orders.of(
        () => nextCounter(),
        () => running.flatMap(_.ordersFor(r.executor.id)),
        membership.isDraining(r.executor.id)
      )
      MessageBytes.encode(orders)
    case c: Committed =>
      membership.committedOn(c.executor)
      query(c.worker.store.run).foreach { query =>
        query.committed(c)
        if (c.arrivals.isNews) tell(_.arrived(query, c))
      }
      null
    case FileSettingsAsked(run) =>
      MessageBytes.encode(FileSettings(query(run).map(_.fileSettings)))
    case other =>
      logWarning(s"An executor sent a message of an unknown kind: ${other.getClass.getName}")
      null
  }
}

object ApplicationDriver {

  private val SweepsEndMs = 10000L
  private val SweepsAtOnce = 4
  private val TurnMs = 60000L

  private val FirstPlanMs = 60000L
  private val LookMs = 100L

  /** The version of the plugin's jar. */
  def version: String =
    Option(getClass.getPackage.getImplementationVersion).getOrElse("unknown")

  @volatile private var instance: Option[ApplicationDriver] = None

  /** The driver of the running application; None if it has no plugin, or has stopped. */
  def active: Option[ApplicationDriver] = instance.filterNot(_.context.isStopped)
  def activate(driver: ApplicationDriver): Unit = instance = Some(driver)
  def deactivate(): Unit = {
    instance.foreach(_.stop())
    instance = None
  }
}
