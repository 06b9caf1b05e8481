// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.annotation.tailrec
import scala.collection.mutable

import io.megaphone.checkpoint.planlog.LogRecord
import io.megaphone.errors.InvalidPlanException
import io.megaphone.format.{StateName, StoreId}
import io.megaphone.plan.{Group, Plan, RoutingTable, SealedStep, Step, StepId}
import io.megaphone.protocol.Protocol._
import io.megaphone.state.ReplicaKey

/** How a batch is planned: rules 4 to 8.
  *
  * ''Given:'' the state, and what the driver knows of the batch.
  *
  *   1. Plans whose next step does not fit the tables are cancelled, with the reason.
  *   1. In each group the plan whose turn it is has its next steps looked at: those that the batch
  *      takes are sealed together, in one record for all groups.
  *   1. The steps behind them are announced, as many as the window has room for.
  */
private[protocol] object Planning {
  private[protocol] val Misfit =
    "Its next step does not fit where the bins are since the query was started again further back."
  private val Full =
    "Workers that were to go have bins left that there was no room for elsewhere."

  def apply(state: State, batch: Batch): (State, Vector[Command]) = {
    val n = batch.number
    val before = state.tables(n - 1)
    val existing = state.history.sealAt(n)
    val current = existing.fold(before)(_.tables)
    val open = fitting(state, batch, current, state.history.open)
    val due =
      if (existing.isDefined || !mayStep(state, batch)) Vector.empty
      else state.groups.flatMap(g => dueSteps(state, batch, g, before(g.id), open))
    val completed =
      if (existing.isDefined || !mayStep(state, batch)) Vector.empty
      else Completion.steps(state, n, before)
    val after = due.foldLeft(current) { (tables, a) =>
      val table = tables(a.id.group)
      tables.updated(
        a.id.group,
        table.moved(a.step.moves, state.history.nextNumber, a.step.workers)
      )
    }
    val incomplete = Completion.bins(state, n, due, completed)
    val announced = upcoming(state, batch, open, due, before, after, incomplete)
    val decision = Decision(batch, before, after, due, announced, incomplete)
    val cancels = state.history.open
      .filterNot(open.contains)
      .map(p => Append(LogRecord.Cancelled(p.id, Some(whyNot(state, p)))))
    if (due.isEmpty && completed.isEmpty) {
      val next = state.copy(decision = Some(decision), announced = decision.announced)
      (next, cancels :+ HandOut(decision))
    } else {
      val steps =
        due.map(a => SealedStep(a.id, a.step.moves, a.noRoom))
      val seal = LogRecord.Sealed(state.run, n, steps, after, completed)
      (state.copy(pending = Some(seal -> decision)), cancels :+ Append(seal))
    }
  }

  /** The steps that are announced from this batch on, and those that are announced already. One
    * that moves bins that are incomplete is not announced: what its source has of them is neither
    * an image nor to be surveyed.
    */
  private def upcoming(
      state: State,
      batch: Batch,
      open: Vector[Plan],
      due: Vector[Announced],
      before: Map[Long, RoutingTable],
      after: Map[Long, RoutingTable],
      incomplete: Map[Long, Set[Int]]
  ): Vector[Announced] = {
    val steps = for {
      group <- state.groups
      turn <- inTurn(state, open, group.id, due.map(_.id)).toVector
      arriving = incomplete.getOrElse(group.id, Set.empty[Int])
      window = turn
        .window(turn.plan.mode.announcedSteps(state.settings.windowSteps))
        .takeWhile { case (id, step) =>
          state.announced.exists(_.id == id) || !step.moves.exists(m => arriving(m.bin))
        }
      (id, step) <- withinBytes(state, batch, before(group.id), after(group.id), window)
    } yield state.announced.find(_.id == id).getOrElse {
      val images =
        if (turn.plan.mode.isPreparedAhead)
          imagesOf(batch, group, before(group.id), after(group.id), step)
        else Map.empty[(StoreId, Int), StateName]
      val executors = batch.executorsOf(group.id)
      Announced(id, step, turn.plan.mode, batch.number, images, executors)
    }
    val (known, newOnes) = steps.partition(_.since < batch.number)
    val images =
      newOnes.foldLeft(known)((all, a) => all :+ withinImageBytes(batch, before, after, all, a))
    steps.flatMap(a => images.find(_.id == a.id))
  }

  /** A step that is announced now, without images if it moves so much, with those before it, that
    * the images would be too old for tails before all are there. Targets then read files slice by
    * slice, at any pace.
    */
  private def withinImageBytes(
      batch: Batch,
      before: Map[Long, RoutingTable],
      after: Map[Long, RoutingTable],
      earlier: Vector[Announced],
      announced: Announced
  ): Announced = {
    val withImages = (earlier :+ announced).filter(_.images.nonEmpty)
    def bytes = StepBytes.atBusiest(batch, withImages, before, after)
    val isTooMuch = batch.imageBytesMax < Long.MaxValue && bytes > batch.imageBytesMax
    if (isTooMuch) announced.copy(images = Map.empty) else announced
  }

  /** The steps of a window that do not move too many bytes together: the first, those that are
    * announced already, and as many more as there is room for. A run that has just started does not
    * know how large its state is: it announces one step, and the others once tasks have committed.
    */
  private def withinBytes(
      state: State,
      batch: Batch,
      before: RoutingTable,
      after: RoutingTable,
      window: Vector[(StepId, Step)]
  ): Vector[(StepId, Step)] = {
    val counts = before.binCounts // what is known of the workers' bytes is of this table
    var bytes = Option(0L)
    window.takeWhile { case (id, step) =>
      val isFirst = id == window.head._1
      bytes = bytes.zip(batch.bytesOf(id.group, step.moves, after, counts)).map { case (a, b) =>
        a + b
      }
      isFirst || bytes.getOrElse(Long.MaxValue) <= state.settings.windowBytes ||
      state.announced.exists(_.id == id)
    }
  }

  /** Rule 6: a batch takes a step only if this run alone can have planned it. A first batch that
    * this run logged, and from which another run has started since, may be running there with the
    * tables as they are.
    */
  private def mayStep(state: State, batch: Batch): Boolean = batch.isOwn && !(
    state.firstBatch.contains(batch.number) &&
      state.history.starts.isOtherFrom(state.run, batch.number)
  )

  /** The plan whose turn it is in a group, the one submitted first, and its steps still to be
    * sealed. There are several open plans only if a restart further back has opened one again.
    */
  private def inTurn(
      state: State,
      open: Vector[Plan],
      group: Long,
      due: Seq[StepId]
  ): Option[Turn] = open.iterator
    .map { p =>
      val taken = due.count(id => id.planId == p.id && id.group == group)
      Turn(p, group, state.history.nextStep(p.id, group) + taken)
    }
    .find(_.steps.hasNext)

  /** Plans without those whose next step does not fit the table: after a restart further back than
    * the plan's submission, or if workers that were to go keep bins that there was no room for.
    * Such a plan is cancelled, because it can never go on.
    */
  @tailrec
  private def fitting(
      state: State,
      batch: Batch,
      tables: Map[Long, RoutingTable],
      open: Vector[Plan]
  ): Vector[Plan] = {
    val next = for {
      group <- state.groups.iterator
      turn <- inTurn(state, open, group.id, Nil)
      (id, step) = turn.steps.next()
      table = tables(group.id)
    } yield (turn.plan, table, taken(state, batch, group, table, id).fold(step)(_.step))
    next.collectFirst { case (plan, table, step) if !fits(table, step) => plan } match {
      case None => open
      case Some(misfit) => fitting(state, batch, tables, open.filterNot(_.id == misfit.id))
    }
  }

  private def fits(table: RoutingTable, step: Step): Boolean =
    try { table.moved(step.moves, table.number, step.workers); true }
    catch { case _: InvalidPlanException => false }

  private def whyNot(state: State, plan: Plan): String = {
    val announced = state.announced.filter(_.id.planId == plan.id).flatMap(_.noRoom)
    val noRoom = announced ++ state.history.taken(plan.id).flatMap(_._2.noRoom)
    noRoom.headOption.fold(Misfit)(reason => s"$Full $reason")
  }

  /** Rule 6: the consecutive steps of a group that this batch takes, if any. No bin moves twice. */
  private def dueSteps(
      state: State,
      batch: Batch,
      group: Group,
      table: RoutingTable,
      open: Vector[Plan]
  ): Vector[Announced] = inTurn(state, open, group.id, Nil).fold(Vector.empty[Announced]) { turn =>
    @tailrec
    def go(
        due: Vector[Announced],
        table: RoutingTable,
        left: List[(StepId, Step)]
    ): Vector[Announced] = left match {
      case (id, step) :: rest =>
        val isAgain = step.moves.exists(m => due.exists(_.step.moves.exists(_.bin == m.bin)))
        val next = if (isAgain) None else dueStep(state, batch, group, table, turn.plan, id, step)
        next.filter(a => fits(table, a.step)) match {
          case Some(a) =>
            go(due :+ a, table.moved(a.step.moves, table.number, a.step.workers), rest)
          case None => due
        }
      case _ => due
    }
    go(Vector.empty, table, turn.steps.take(state.settings.stepsPerBatch).toList)
  }

  private def dueStep(
      state: State,
      batch: Batch,
      group: Group,
      table: RoutingTable,
      plan: Plan,
      id: StepId,
      step: Step
  ): Option[Announced] = {
    def isRested = {
      val moved = state.history.seals.movedAfter(group.id, batch.number - state.settings.gapBatches)
      val incomplete = state.history.incompleteAt(group.id, batch.number)
      val arriving = incomplete.iterator.flatMap(_.moves).map(_.bin).toSet
      !step.moves.exists(m => moved(m.bin) || arriving(m.bin)) &&
      !(plan.mode.isOnDemand && incomplete.size >= state.settings.windowSteps)
    }
    if (state.announced.exists(_.id == id))
      taken(state, batch, group, table, id).filter(_ => isRested)
    // In a run's first batch nothing is in memory yet: a step is cheapest now.
    else if (state.firstBatch.contains(batch.number) && isRested)
      Some(Announced(id, step, plan.mode, batch.number, Map.empty))
    else None
  }

  /** An announced step as it can be taken now: all of it if its replicas or surveys are ready;
    * else, its patience over, without the moves that have no room, because reading them from files
    * would need the same room. A target that had no room for a move of the same plan is not waited
    * for again.
    */
  private def taken(
      state: State,
      batch: Batch,
      group: Group,
      table: RoutingTable,
      id: StepId
  ): Option[Announced] = state.announced.find(_.id == id).flatMap { announced =>
    val placed = announced.at(batch.executorsOf(group.id))
    val needed = Duties.replicas(state.run, placed, batch, group, table).map(_.key)
    // A replica that had no room may not be needed any more.
    val a = if (placed.noRoom.isEmpty) placed else placed.only(needed.toSet)
    lazy val full = fullTargets(state, a.id)
    val waitsSince = math.max(a.since, state.progressAt)
    val isOver =
      !a.mode.isAwaited || batch.number - waitsSince >= state.settings.patienceBatches
    val isTaken = isOver || needed.forall { key =>
      if (a.isRefused(key)) full(Announced.targetOf(key)) else a.isReady(key, batch.number - 2)
    }
    if (isTaken) Some(a.withRoom(table)) else None
  }

  private def fullTargets(state: State, id: StepId): Set[Int] = (for {
    (_, s) <- state.history.taken(id.planId) if s.step.group == id.group && s.noRoom.isDefined
    plan <- state.history.plan(id.planId).toVector
    move <- plan.steps(s.step.group)(s.step.index).moves if !s.moves.contains(move)
  } yield move.target).toSet

  /** The images that sources have for a step: of bins that were theirs in the batch before. */
  private def imagesOf(
      batch: Batch,
      group: Group,
      before: RoutingTable,
      after: RoutingTable,
      step: Step
  ): Map[(StoreId, Int), StateName] = (for {
    store <- group.stores
    (source, moves) <- step.moves.groupBy(m => after.workerOf(m.bin))
    if moves.forall(m => before.workerOf(m.bin) == source)
  } yield (store, source) -> batch.idsOf(store).nameOf(batch.number, source)).toMap
}

/** A plan in its turn in a group: its steps from one on are still to be sealed. */
private[protocol] final case class Turn(plan: Plan, group: Long, from: Int) {
  def steps: Iterator[(StepId, Step)] = {
    val all = plan.steps.getOrElse(group, Vector.empty)
    Iterator.range(from, all.size).map(i => StepId(plan.id, group, i) -> all(i))
  }

  /** The next steps, up to the first that moves a bin again: its source is not known before the
    * step that moved the bin has taken effect.
    */
  def window(most: Int): Vector[(StepId, Step)] = {
    val moved = mutable.Set.empty[Int]
    steps
      .take(most)
      .takeWhile { case (_, step) =>
        val isFirst = !step.moves.exists(m => moved(m.bin))
        moved ++= step.moves.iterator.map(_.bin)
        isFirst
      }
      .toVector
  }
}

/** A replica that a step needs, and the bins in it. */
private[protocol] final case class NeededReplica(key: ReplicaKey, bins: IndexedSeq[Int])
