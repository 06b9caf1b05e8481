// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.events

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeoutException, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.megaphone.checkpoint.Parallel
import io.megaphone.runtime.Committed
import io.megaphone.spark.driver.{ApplicationDriver, Observer, QueryDriver}

/** Posts an event for each thing of a query that has changed.
  *
  *   1. Something happens to a query. The journal's own thread looks at the query soon after, so
  *      that no batch waits.
  *   1. It makes the bodies of the events that the query may have now, and posts those that differ
  *      from what it posted last: see [[RunJournal]].
  *   1. If a run is over it looks once more, and says so. If the application stops, it does that
  *      for all runs that are left.
  *
  * If the driver dies, what was not posted is lost. A new run begins a journal of its own.
  *
  * Threads: any. One thread looks, for all queries; a look reads the newest name of Spark's commit
  * log, so it may wait for the file system.
  *
  * @param post
  *   returns at once; may lose the event
  * @param intervalMs
  *   between two events about the state of a group
  */
final class Journal(
    application: ApplicationDriver,
    post: MegaphoneEvent => Unit,
    intervalMs: Long
) extends Observer
    with Logging {
  private val thread =
    Executors.newSingleThreadScheduledExecutor(Parallel.daemons("megaphone-events"))
  private val runs = new ConcurrentHashMap[String, RunJournal]()

  override def changed(query: QueryDriver): Unit = if (query.query.isActive) {
    val run = runs.computeIfAbsent(query.runId, _ => journalOf(query))
    if (run.isAsked.compareAndSet(false, true)) soon(0) { run.isAsked.set(false); run.look() }
    // It may have ended, and been removed, meanwhile.
    if (!query.query.isActive && runs.get(query.runId) == run) endSoon(run, query.query.error)
  }

  override def arrived(query: QueryDriver, commit: Committed): Unit = changed(query)

  override def ended(query: QueryDriver, error: Option[String]): Unit =
    Option(runs.get(query.runId)).foreach(endSoon(_, error))

  override def elsewhere(
      runId: String,
      id: String,
      name: Option[String],
      provider: String
  ): Unit =
    tell(runId)(MegaphoneEvent.Query, "", Bodies.queryElsewhere(id, name, provider))

  override def endedElsewhere(runId: String, error: Option[String]): Unit =
    tell(runId)(MegaphoneEvent.Ended, "", Bodies.ended(error))

  /** Ends the journals of all runs, and posts nothing any more. Returns within seconds. */
  def stop(): Unit = {
    runs.values.asScala.foreach(run => endSoon(run, run.error))
    // Only what is to be told now: a look that is due in some seconds would hold the driver up.
    val allTold = thread.schedule((() => ()): Runnable, 0, TimeUnit.MILLISECONDS)
    try allTold.get(StopSeconds, TimeUnit.SECONDS)
    catch { case _: TimeoutException => logWarning("What happened last could not be told.") }
    thread.shutdownNow()
    ()
  }

  private def endSoon(run: RunJournal, error: Option[String]): Unit =
    if (runs.remove(run.id, run)) soon(0)(run.end(error))

  private def journalOf(query: QueryDriver) = new RunJournal(
    query,
    application,
    tell(query.runId),
    intervalMs,
    (delayMs, look) => soon(delayMs)(look())
  )

  private def soon(delayMs: Long)(work: => Unit): Unit =
    if (!thread.isShutdown) {
      val guarded: Runnable = () =>
        try work
        catch {
          case NonFatal(e) => logWarning("What happened to a query could not be told.", e)
        }
      thread.schedule(guarded, delayMs, TimeUnit.MILLISECONDS)
      ()
    }

  private def tell(run: String): RunJournal.Tell = (kind, key, body) =>
    post(MegaphoneEvent(kind, MegaphoneEvent.Version, System.currentTimeMillis, run, key, body))

  private val StopSeconds = 10L
}
