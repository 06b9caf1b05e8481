// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.events

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.mutable
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.NullNode
import org.apache.spark.internal.Logging

import io.megaphone.checkpoint.Parallel
import io.megaphone.plan.Group
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.Committed
import io.megaphone.spark.driver.{ApplicationDriver, Observer, QueryDriver, TableRows}
import io.megaphone.view.{MigrationRow, StepRow}

/** Posts an event for each thing of a query that has changed.
  *
  *   1. Something happens to a query. A thread of the journal looks at the query soon after, so
  *      that no batch waits.
  *   1. It makes the bodies of all events that the query may have now, and posts those that differ
  *      from what it posted last.
  *   1. The state of a group is large and changes all the time, so it is posted seldom: after a
  *      step within a tenth of the interval, otherwise once in the interval.
  *
  * If the driver dies, what was not posted is lost. A new run begins a journal of its own.
  *
  * Threads: any.
  *
  * @param post
  *   returns at once; may lose the event
  * @param intervalMs
  *   between two events about the state of a group; of more than 4,096 bins it is longer by as much
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

  override def changed(query: QueryDriver): Unit =
    if (query.query.isActive)
      runs.computeIfAbsent(query.runId, _ => new RunJournal(query)).lookSoon()

  override def arrived(query: QueryDriver, commit: Committed): Unit = changed(query)

  /** In the calling thread: the application may be about to stop. */
  override def ended(query: QueryDriver, error: Option[String]): Unit = {
    val known = Option(runs.remove(query.runId))
    known.getOrElse(new RunJournal(query)).end(error)
  }

  override def elsewhere(
      runId: String,
      id: String,
      name: Option[String],
      provider: String
  ): Unit =
    tell(MegaphoneEvent.Query, runId, "", Bodies.queryElsewhere(id, name, provider))

  override def endedElsewhere(runId: String, error: Option[String]): Unit =
    tell(MegaphoneEvent.Ended, runId, "", Bodies.ended(error))

  /** Posts nothing any more. */
  def stop(): Unit = {
    thread.shutdownNow()
    ()
  }

  private def tell(kind: String, run: String, key: String, body: JsonNode): Unit =
    post(MegaphoneEvent(kind, MegaphoneEvent.Version, System.currentTimeMillis, run, key, body))

  private final class RunJournal(query: QueryDriver) {
    private val isAsked = new AtomicBoolean
    private var isOver = false
    private var told = Map.empty[(String, String), JsonNode] // what the last look has seen
    private var executors: JsonNode = NullNode.instance // as told
    private val states = mutable.Map.empty[Long, Journal.ToldState] // by group
    private val seenAt = mutable.Map.empty[String, Long] // open plans, and the batch then

    def lookSoon(): Unit =
      if (isAsked.compareAndSet(false, true)) thread.execute { () => isAsked.set(false); look() }

    private def look(): Unit =
      try query.snapshot.foreach(state => synchronized(if (!isOver) see(state, isLast = false)))
      catch { case NonFatal(e) => logWarning("What happened to a query could not be told.", e) }

    def end(error: Option[String]): Unit = synchronized {
      isOver = true
      query.snapshot.foreach(see(_, isLast = true))
      tell(MegaphoneEvent.Ended, query.runId, "", Bodies.ended(error))
    }

    private def see(state: Protocol.State, isLast: Boolean): Unit = {
      val seen = things(state).toMap
      for (((kind, key), body) <- seen if !told.get(kind -> key).contains(body))
        tell(kind, query.runId, key, body)
      told = seen
      val groups = state.groups.filter(tellState(state, _, isLast))
      if (groups.nonEmpty) tellExecutors()
    }

    private def tellExecutors(): Unit = {
      val body = Bodies.executors(application)
      if (body != executors) tell(MegaphoneEvent.Executors, query.runId, "", body)
      executors = body
    }

    /** What there is to tell of, in order: steps and recoveries only of the last batches, because
      * what they cost comes with commits that may be reported late.
      */
    private def things(state: Protocol.State): Vector[((String, String), JsonNode)] = {
      val newest = state.decision.fold(-1L)(_.batch.number)
      val since = math.max(state.firstBatch.getOrElse(0L), newest - Journal.LateBatches)
      val arrivals = MigrationRow.of(query.commits.moves).filter(_.batch >= since)
      val plans = TableRows.plans(query).map { row =>
        val plan = state.history.plan(row.id).get
        if (!row.status.isFinal) seenAt.getOrElseUpdate(row.id, newest)
        (row, plan)
      }
      seenAt.filterInPlace((id, _) => state.history.plan(id).isDefined)
      val ofQuery = Vector((MegaphoneEvent.Query -> "") -> Bodies.query(query, state))
      val ofPlans = plans.map { case (row, plan) =>
        (MegaphoneEvent.Plan -> row.id) -> Bodies.plan(row, plan, seenAt.get(row.id))
      }
      val ofSteps = for {
        (row, plan) <- plans if row.batches.lastOption.exists(_ >= since)
        step <- StepRow.of(state, plan) if step.batch.exists(_ >= since)
        operators = state.group(step.operator).operators.map(_.id).toSet
        own = arrivals.filter(a => step.batch.contains(a.batch) && operators(a.operator))
      } yield (MegaphoneEvent.Step -> s"${step.plan}/${step.operator}/${step.step}") ->
        Bodies.step(step, own)
      val ofRecoveries = arrivals.filter(_.isRecovery).groupBy(_.batch).toVector.sortBy(_._1).map {
        case (batch, rows) =>
          (MegaphoneEvent.Recovery -> batch.toString) -> Bodies.recovery(batch, rows)
      }
      ofQuery ++ ofPlans ++ ofSteps ++ ofRecoveries
    }

    /** Tells the state of a group if it has changed and the time has come; if only that has not,
      * looks again when it has. Returns whether it was told.
      */
    private def tellState(state: Protocol.State, group: Group, isLast: Boolean): Boolean = {
      val now = System.nanoTime / 1000000
      val before = states.get(group.id)
      val current = Journal.ToldState(
        now,
        state.currentTable(group.id).number,
        state.announced.map(_.id.toString),
        Bodies.workers(query, group.id).map(_.lastBatch)
      )
      val isChanged = !before.exists(_.isSame(current))
      val waitMs = before.fold(0L) { told =>
        val share = if (told.isOfSameStep(current)) 1 else Journal.StepShare
        val bins = state.currentTable(group.id).bins
        told.atMs + intervalMs / share * math.max(1, bins / Journal.BinsAtOnce) - now
      }
      val isDue = isChanged && (isLast || waitMs <= 0)
      if (isDue) {
        states(group.id) = current
        val body = Bodies.state(query, state, group)
        tell(MegaphoneEvent.State, query.runId, group.id.toString, body)
      } else if (isChanged)
        before.filter(_.isNewsAt(now + waitMs)).foreach { _ =>
          thread.schedule((() => look()): Runnable, waitMs, TimeUnit.MILLISECONDS)
        }
      isDue
    }
  }
}

object Journal {

  /** What a state that was told depends on. */
  private final case class ToldState(
      atMs: Long,
      table: Long,
      announced: Vector[String],
      batches: Vector[Option[Long]]
  ) {
    private var nextMs = Long.MaxValue

    def isOfSameStep(other: ToldState): Boolean =
      table == other.table && announced == other.announced
    def isSame(other: ToldState): Boolean = isOfSameStep(other) && batches == other.batches

    /** Whether a look at this time comes before all that were asked for. */
    def isNewsAt(ms: Long): Boolean = {
      val isNews = ms < nextMs
      nextMs = math.min(nextMs, ms)
      isNews
    }
  }

  /** How many batches late a commit may be reported and still count for its step. */
  private val LateBatches = 3L
  private val StepShare = 10
  private val BinsAtOnce = 4096
}
