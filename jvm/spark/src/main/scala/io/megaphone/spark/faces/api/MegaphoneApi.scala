// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.api

import java.util.{LinkedHashMap => JMap, UUID}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.megaphone.ActiveQueries

import io.megaphone.errors.{PlanRefusedException, UnsupportedQueryException}
import io.megaphone.errors.InvalidPlanException
import io.megaphone.plan.{
  Group, Move, Plan, Planner, RoutingTable, Step, StepId, Strategies, Strategy, TransferMode
}
import io.megaphone.protocol.{PlanStatus, Protocol}
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.driver.{ApplicationDriver, QueryDriver}

/** The door for other languages: plain arguments in, JSON out. Python's facade is written on it.
  *
  * A query is named by its run id; one that is about to plan its first batch is waited for.
  * Strategy and mode may be null: the configuration's are taken. An operator of -1 is all of the
  * query. Throws PlanRefusedException or InvalidPlanException, which have a `condition`; nothing
  * has changed then. Any thread.
  */
object MegaphoneApi {
  private val json = new ObjectMapper

  /** The version of this jar. */
  def version: String = Option(getClass.getPackage.getImplementationVersion).getOrElse("unknown")

  /** Submits a plan from the workers of now to `workers`; gives the plan as JSON. */
  def rescale(runId: String, workers: Int, strategy: String, mode: String, operator: Long): String =
    submit(runId, strategy, mode, operator, table => Planner.rescale(table, workers))

  /** Submits a plan that makes these moves, given as JSON: `[[bin, worker], ...]`; gives the plan
    * as JSON.
    */
  def move(runId: String, moves: String, strategy: String, mode: String, operator: Long): String = {
    val asked = movesOf(json.readTree(moves))
    submit(runId, strategy, mode, operator, table => Planner.move(table, asked))
  }

  /** Submits steps made by hand, given as JSON:
    * `[{"moves": [[bin, worker], ...], "workers": 3}, ...]`, where 0 workers are as many as before.
    *
    * With a strategy, each step is cut by it. Steps that change nothing are left out.
    */
  def submitSteps(
      runId: String,
      steps: String,
      strategy: String,
      mode: String,
      operator: Long
  ): String = {
    val control = controlOf(runId)
    val asked = json
      .readTree(steps)
      .asScala
      .map(s => (movesOf(s.required("moves")), whole(s.required("workers"))))
      .toVector
    if (asked.isEmpty || asked.exists { case (moves, workers) => moves.isEmpty && workers == 0 })
      throw new InvalidPlanException.EmptyPlan
    val plan = control.submit { state =>
      val how = Option(strategy).map(Strategy.parse)
      val stepsOf = groupsOf(state, operator)
        .map { g =>
          val (_, made) = asked.foldLeft((checkedTable(control, state, g), Vector.empty[Step])) {
            case ((table, before), (moves, workers)) =>
              val step = Step(moves, if (workers == 0) table.workers else workers)
              val after = table.moved(step.moves, table.number, step.workers)
              val changes = after.workers != table.workers || table.movesTo(after).nonEmpty
              (
                after,
                before ++ (if (!changes) Vector.empty
                           else how.fold(Vector(step))(Strategies.steps(table, step, _)))
              )
          }
          g.id -> made
        }
        .filter(_._2.nonEmpty)
        .toMap
      if (stepsOf.isEmpty) throw PlanRefusedException.nothingToDo
      Plan(newId(), stepsOf, how.fold("as given")(_.toString), modeOf(control, mode))
    }
    planJson(control, plan.id)
  }

  /** Cancels a plan; nothing happens if it has ended. */
  def cancel(runId: String, planId: String): Unit = controlOf(runId).cancel(planId)

  /** One plan, as JSON: `planned_batch` is the newest batch of the query that was planned, whatever
    * the plan.
    */
  def plan(runId: String, planId: String): String = planJson(controlOf(runId), planId)

  /** All plans of the query, in the order they were submitted: a JSON array. */
  def plans(runId: String): String = {
    val control = controlOf(runId)
    val state = stateOf(control)
    array(state.history.plans.map(planRow(control, state, _)))
  }

  /** One row a step of a plan: `operator`, `step`, `bins` and their `targets`, `workers` after it,
    * the `batch` it took effect at, null before that, and the bins that have `stayed` then, for
    * want of room.
    */
  def steps(runId: String, planId: String): String = {
    val state = stateOf(controlOf(runId))
    val plan = planOf(state, planId)
    val taken =
      state.history.taken(planId).map { case (batch, s) => s.step -> (batch -> s.moves) }.toMap
    array(
      for {
        (group, steps) <- plan.steps.toVector.sortBy(_._1)
        (step, index) <- steps.zipWithIndex
        fact = taken.get(StepId(planId, group, index))
      } yield row(
        "operator" -> group,
        "step" -> index,
        "bins" -> step.moves.map(_.bin).asJava,
        "targets" -> step.moves.map(_.target).asJava,
        "workers" -> step.workers,
        "batch" -> fact.map(f => long(f._1)).orNull,
        "stayed" -> fact.fold(Vector.empty[Move])(f => step.moves.diff(f._2)).map(_.bin).asJava
      )
    )
  }

  /** One row a group and bin: `operator`, `bin`, `worker`, `executor`. */
  def bins(runId: String): String = {
    val control = controlOf(runId)
    val state = stateOf(control)
    array(
      for {
        group <- state.groups
        table = control.currentTable(group.id)
        bin <- 0 until table.bins
        worker = table.workerOf(bin)
      } yield row(
        "operator" -> group.id,
        "bin" -> bin,
        "worker" -> worker,
        "executor" -> control.executorOf(group.id, worker).orNull
      )
    )
  }

  /** One row a group and worker: `operator`, `worker`, `executor`, `bins`, `keys`, `last_batch`. */
  def workers(runId: String): String = {
    val control = controlOf(runId)
    val newest = control.commits.newest
    array(for {
      group <- stateOf(control).groups
      table = control.currentTable(group.id)
      counts = table.binCounts
      worker <- 0 until table.workers
    } yield {
      val commits = newest.collect {
        case (w, c) if w.store.id.operator == group.id && w.worker == worker => c
      }
      row(
        "operator" -> group.id,
        "worker" -> worker,
        "executor" -> control.executorOf(group.id, worker).orNull,
        "bins" -> counts(worker),
        "keys" -> commits.map(_.keys).sum,
        "last_batch" -> commits.map(_.batch).maxOption.map(long).orNull
      )
    })
  }

  /** One row a batch, operator and worker that bins moved into or that was recovered: counts,
    * bytes, and the time waited.
    */
  def migrations(runId: String): String =
    array(
      controlOf(runId).commits.all
        .filter(c => c.arrivals.binsIn > 0 || c.arrivals.isRecovered)
        .map { c =>
          row(
            "batch" -> c.batch,
            "operator" -> c.worker.store.id.operator,
            "store" -> c.worker.store.id.store,
            "worker" -> c.worker.worker,
            "executor" -> c.executor.id,
            "bins_in" -> c.arrivals.binsIn,
            "bins_relabelled" -> c.arrivals.binsRelabelled,
            "bins_from_peer" -> c.arrivals.binsFromPeer,
            "bins_from_checkpoint" -> c.arrivals.binsFromCheckpoint,
            "bytes_from_peer" -> c.arrivals.bytesFromPeer,
            "bytes_from_checkpoint" -> c.arrivals.bytesFromCheckpoint,
            "wait_ms" -> c.arrivals.waitMs,
            "is_recovery" -> c.arrivals.isRecovered
          )
        }
    )

  /** One row an executor that has reported: `executor`, and what it keeps for all queries:
    * `workers` with state, `copies` made ready for steps, `blocks` published for other executors.
    */
  def executors(): String = {
    val controller = ApplicationDriver.active.getOrElse(throw UnsupportedQueryException.noPlugin)
    array(controller.heldByExecutor.map { case (id, h) =>
      row("executor" -> id, "workers" -> h.workers, "copies" -> h.replicas, "blocks" -> h.blocks)
    })
  }

  private def submit(
      runId: String,
      strategy: String,
      mode: String,
      operator: Long,
      change: RoutingTable => Step
  ): String = {
    val control = controlOf(runId)
    val plan = control.submit { state =>
      val how = Option(strategy)
        .map(Strategy.parse)
        .getOrElse(MegaphoneConf.DefaultStrategy.read(control.conf))
      val steps = groupsOf(state, operator)
        .map { g =>
          val table = checkedTable(control, state, g)
          g.id -> Strategies.steps(table, change(table), how)
        }
        .filter(_._2.nonEmpty)
        .toMap
      if (steps.isEmpty) throw PlanRefusedException.nothingToDo
      Plan(newId(), steps, how.toString, modeOf(control, mode))
    }
    planJson(control, plan.id)
  }

  private def movesOf(pairs: JsonNode): Vector[Move] =
    pairs.asScala.map(pair => Move(whole(pair.required(0)), whole(pair.required(1)))).toVector
  private def whole(node: JsonNode): Int = if (node.isInt) node.intValue
  else throw new IllegalArgumentException(s"A whole number is needed, not $node.")

  /** The table that a new plan starts from: no other plan of the group may be open. */
  private def checkedTable(
      control: QueryDriver,
      state: Protocol.State,
      group: Group
  ): RoutingTable = {
    state.history.open
      .find(_.steps.contains(group.id))
      .foreach(p => throw PlanRefusedException.overlapping(p.id, "concerns the same bins"))
    control.currentTable(group.id)
  }

  private def groupsOf(state: Protocol.State, operator: Long): Vector[Group] =
    if (operator < 0) {
      val movable = state.groups.filter(_.isMovable)
      if (movable.isEmpty) throw PlanRefusedException.notMovable(state.groups.head.id)
      movable
    } else {
      val group = state.groups
        .find(_.operators.exists(_.id == operator))
        .getOrElse(
          throw PlanRefusedException
            .unknownOperator(operator, state.groups.flatMap(_.operators.map(_.id)))
        )
      if (!group.isMovable) throw PlanRefusedException.notMovable(operator)
      Vector(group)
    }

  private def modeOf(control: QueryDriver, mode: String): TransferMode =
    Option(mode).map(TransferMode.parse).getOrElse(MegaphoneConf.Mode.read(control.conf))

  private def controlOf(runId: String): QueryDriver = {
    val controller = ApplicationDriver.active.getOrElse(throw UnsupportedQueryException.noPlugin)
    controller.queryWithPlan(runId).getOrElse {
      val run = UUID.fromString(runId)
      if (!ActiveQueries.isActive(run)) throw PlanRefusedException.stopped(runId)
      else if (ActiveQueries.isStarting(run)) throw PlanRefusedException.notStarted
      else
        throw controller
          .otherProviderOf(runId)
          .fold(PlanRefusedException.notBinned(runId))(
            PlanRefusedException.onOtherProvider(runId, _)
          )
    }
  }

  private def stateOf(control: QueryDriver): Protocol.State =
    control.snapshot.getOrElse(throw PlanRefusedException.notStarted)

  private def planJson(control: QueryDriver, planId: String): String = {
    val state = stateOf(control)
    json.writeValueAsString(planRow(control, state, planOf(state, planId)))
  }

  private def planOf(state: Protocol.State, planId: String): Plan =
    state.history.plans
      .find(_.id == planId)
      .getOrElse(throw PlanRefusedException.unknownPlan(planId))

  private def planRow(control: QueryDriver, state: Protocol.State, plan: Plan): AnyRef = {
    val taken = state.history.taken(plan.id)
    row(
      "id" -> plan.id,
      "status" -> PlanStatus.of(state, plan, control.query.latestCommittedBatch).name,
      "strategy" -> plan.strategy,
      "mode" -> plan.mode.toString,
      "operators" -> plan.steps.keys.toVector.sorted.map(long).asJava,
      "steps" -> plan.stepsCount,
      "steps_done" -> taken.size,
      "moves" -> plan.movesCount,
      "moves_done" -> taken.map(_._2.moves.size).sum,
      "batches" -> taken.map(_._1).distinct.sorted.map(long).asJava,
      "reason" -> state.history.cancelled
        .get(plan.id)
        .flatten
        .orElse(taken.flatMap(_._2.noRoom).lastOption)
        .orNull,
      "planned_batch" -> state.decision.map(d => long(d.batch.number)).orNull
    )
  }

  private def newId(): String = UUID.randomUUID().toString.take(8)
  private def long(value: Long): java.lang.Long = value
  private def row(fields: (String, Any)*): AnyRef = {
    val map = new JMap[String, Any]
    fields.foreach { case (k, v) => map.put(k, v) }
    map
  }
  private def array(rows: Iterable[AnyRef]): String = json.writeValueAsString(rows.toSeq.asJava)
}
