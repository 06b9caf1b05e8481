// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.events

import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.NullNode

import io.megaphone.plan.Group
import io.megaphone.protocol.Protocol
import io.megaphone.spark.driver.{ApplicationDriver, QueryDriver, TableRows}
import io.megaphone.spark.faces.events.RunJournal.{Seen, Tell, ToldState}
import io.megaphone.view.{MigrationRow, PlanRow, StepRow, WorkerRow}

/** What was told of one run.
  *
  *   - The query, its plans, relocations and lost executors, the steps, the recoveries and what was
  *     brought on demand of the last batches are told if they differ from what was told last. A
  *     plan or a relocation that is over is not looked at again.
  *   - Where the state of a group is, is large and changes all the time. It is told after a step,
  *     within a tenth of the interval, and else once in the interval. For more than 4,096 bins the
  *     interval is as many times as long. While a step's batch runs it is not told: the table is
  *     already that of the step, and the sizes are still those before it.
  *
  * Threads: one, the journal's.
  *
  * @param lookAgain
  *   calls a function after so many milliseconds
  */
private[events] final class RunJournal(
    query: QueryDriver,
    application: ApplicationDriver,
    tell: Tell,
    intervalMs: Long,
    lookAgain: (Long, () => Unit) => Unit
) {
  private var told = Map.empty[(String, String), JsonNode] // what the last look has seen
  private val seen = mutable.Map.empty[String, Seen] // plans that were open in this run
  private val over = mutable.Set.empty[String] // plans of which nothing can change any more
  private val relocated = mutable.Set.empty[Long] // relocations that were told to have ended
  private val states = mutable.Map.empty[Long, ToldState] // by group
  private var executors: JsonNode = NullNode.instance
  private var drains = Vector.empty[JsonNode] // as they were told last
  private var newestSeen = -1L // batch
  private var isOver = false

  /** Whether a look is to come. For the journal. */
  val isAsked = new AtomicBoolean
  def id: String = query.runId
  def error: Option[String] = query.query.error

  /** Tells what has changed. After `end` it does nothing. */
  def look(): Unit = if (!isOver) query.snapshot.foreach(see(_, isLast = false))

  /** Tells all that is known of plans once more, for the bus may have lost an event, and that the
    * run is over. Nothing of a run that has planned no batch.
    */
  def end(error: Option[String]): Unit = {
    isOver = true
    query.snapshot.foreach { state =>
      told = Map.empty
      over.clear()
      relocated.clear()
      try see(state, isLast = true)
      finally tell(MegaphoneEvent.Ended, "", Bodies.ended(error))
    }
  }

  private def see(state: Protocol.State, isLast: Boolean): Unit = {
    val now = things(state)
    for (((kind, key), body) <- now if !told.get(kind -> key).contains(body)) tell(kind, key, body)
    told = now.toMap
    val workers = TableRows.workers(query).groupBy(_.operator)
    val isAnyTold =
      state.groups.map(group => tellState(state, group, workers(group.id), isLast)).contains(true)
    val drainsNow = Bodies.drains(application)
    if (isAnyTold || drainsNow != drains) {
      val body = Bodies.executors(application, drainsNow)
      drains = drainsNow
      if (body != executors) tell(MegaphoneEvent.Executors, "", body)
      executors = body
    }
  }

  /** What there is to tell of, in order. Commits may be reported late, and a look may come late: so
    * steps and recoveries are those since some batches before the last look.
    */
  private def things(state: Protocol.State): Vector[((String, String), JsonNode)] = {
    val newest = state.decision.fold(-1L)(_.batch.number)
    val first = state.firstBatch.getOrElse(0L)
    val since = math.max(first, math.min(newest, newestSeen) - RunJournal.LateBatches)
    newestSeen = newest
    val arrivals = MigrationRow.of(query.commits.movesSince(since))
    over.filterInPlace(state.history.plan(_).isDefined)
    seen.filterInPlace((id, _) => state.history.plan(id).isDefined)
    lazy val committed = query.query.latestCommittedBatch
    val plans = for {
      progress <- state.history.plans.valuesIterator.toVector if !over(progress.plan.id)
      row = PlanRow.of(state, progress.plan, committed)
    } yield {
      if (!row.status.isFinal) seen.getOrElseUpdate(row.id, Seen(newest, workersOf(state, row)))
      else if (row.batches.lastOption.forall(_ < since)) over += row.id
      (row, progress.plan)
    }
    val ofQuery = Vector((MegaphoneEvent.Query -> "") -> Bodies.query(query, state))
    val ofPlans = plans.map { case (row, plan) =>
      (MegaphoneEvent.Plan -> row.id) -> Bodies.plan(row, plan, seen.get(row.id))
    }
    val ofSteps = for {
      (row, plan) <- plans if row.batches.lastOption.exists(_ >= since)
      step <- StepRow.of(state, plan) if step.batch.exists(_ >= since)
      operators = state.group(step.operator).operators.map(_.id).toSet
      own = arrivals.filter(a => step.batch.contains(a.batch) && operators(a.operator))
    } yield (MegaphoneEvent.Step -> s"${step.plan}/${step.operator}/${step.step}") ->
      Bodies.step(step, own)
    def byBatch(isSo: MigrationRow => Boolean) =
      arrivals.filter(isSo).groupBy(_.batch).toVector.sortBy(_._1)
    val ofRecoveries = byBatch(_.isRecovery).map { case (batch, rows) =>
      (MegaphoneEvent.Recovery -> batch.toString) -> Bodies.recovery(batch, rows, state.groups)
    }
    val ofDemands = byBatch(RunJournal.isOnDemand).map { case (batch, rows) =>
      (MegaphoneEvent.Demand -> batch.toString) -> Bodies.demand(batch, rows)
    }
    val relocations = query.footprint.relocations
    relocated.filterInPlace(relocations.iterator.map(_.id).toSet)
    val ofRelocations = relocations.filterNot(r => relocated(r.id)).map { r =>
      if (!r.isOpen) relocated += r.id
      (MegaphoneEvent.Relocation -> r.id.toString) ->
        Bodies.relocation(TableRows.relocation(query, r))
    }
    val ofLosses = query.footprint.losses.map { loss =>
      (MegaphoneEvent.Loss -> loss.executor) -> Bodies.loss(loss)
    }
    ofQuery ++ ofPlans ++ ofSteps ++ ofRecoveries ++ ofDemands ++ ofRelocations ++ ofLosses
  }

  private def workersOf(state: Protocol.State, plan: PlanRow): Vector[Int] =
    plan.operators.map(state.currentTable(_).workers)

  /** Tells the state of a group if it has changed and the time has come; if only that has not,
    * looks again when it has. Returns whether it was told.
    */
  private def tellState(
      state: Protocol.State,
      group: Group,
      workers: Vector[WorkerRow],
      isLast: Boolean
  ): Boolean = {
    val now = System.nanoTime / 1000000
    val table = state.currentTable(group.id)
    val lastStep = Bodies.lastStep(state, group.id)
    val current = ToldState(
      now,
      table.number,
      Bodies.announced(state, group.id).map(_.id.toString),
      workers.map(_.lastBatch),
      isSettled = workers.forall(_.lastBatch.exists(_ >= lastStep.fold(0L)(_._1)))
    )
    val before = states.get(group.id)
    // A commit's report may be lost: then its worker is told as it was.
    val isLate = before.exists(now - _.atMs > intervalMs)
    val isChanged =
      !before.exists(_.isSame(current)) && (current.isSettled || isLast || isLate)
    val waitMs = before.fold(0L) { told =>
      val share = if (told.isOfSameStep(current)) 1 else RunJournal.StepShare
      told.atMs + intervalMs / share * math.max(1, table.bins / RunJournal.BinsAtOnce) - now
    }
    val isDue = isChanged && (isLast || waitMs <= 0)
    if (isDue) {
      states(group.id) = current
      tell(MegaphoneEvent.State, group.id.toString, Bodies.state(query, state, group, workers))
    } else if (isChanged)
      before.filter(_.isNewsAt(now + waitMs)).foreach(_ => lookAgain(waitMs, () => look()))
    isDue
  }
}

private[events] object RunJournal {

  /** Posts an event, given its kind, its key and its body. */
  type Tell = (String, String, JsonNode) => Unit

  /** What there was when a plan was first seen in this run.
    *
    * @param workers
    *   of its groups, in the order of their ids
    */
  final case class Seen(batch: Long, workers: Vector[Int])

  /** What a state that was told depends on.
    *
    * @param isSettled
    *   whether all workers have committed the last step's batch, or a later one
    */
  private final case class ToldState(
      atMs: Long,
      table: Long,
      announced: Vector[String],
      batches: Vector[Option[Long]],
      isSettled: Boolean
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

  /** Whether a batch brought what it needed of incomplete bins, or read all of them from files. */
  private def isOnDemand(row: MigrationRow): Boolean =
    row.subBins > 0 || row.binsIn == 0 && row.binsFromCheckpoint > 0

  /** How many batches late a commit may be reported and still count for its step. */
  private val LateBatches = 3L
  private val StepShare = 10
  private val BinsAtOnce = 4096
}
