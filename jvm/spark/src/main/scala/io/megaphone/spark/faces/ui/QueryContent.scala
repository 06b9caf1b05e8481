// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, Node, NodeSeq}

import io.megaphone.spark.faces.history.{
  BatchFacts, ExecutorFacts, GroupFacts, Measure, RunFacts, StepFacts, WorkerFacts
}
import io.megaphone.view.RelocationRow

/** Where the parts of a page lead.
  *
  * @param to
  *   a path of Spark's UI, for example "/executors/", as the browser has to ask for it
  * @param cancel
  *   the action that cancels a plan of this id; None if nobody may
  */
final case class Links(to: String => String, cancel: String => Option[String])

/** The page of one query, from top to bottom: facts, where the state is, batches and steps, plans,
  * executors, the last steps and the last workers that went elsewhere. Pure: the same facts make
  * the same page.
  */
object QueryContent {

  def apply(run: RunFacts, measure: Measure, links: Links): NodeSeq =
    heading(run, links) ++ (run.query.provider match {
      case Some(provider) =>
        <p>{Words.elsewhere(provider)}</p>
      case None =>
        facts(run) ++
          run.groups.flatMap(group => groupOf(run, group, measure, links)) ++
          batches(run) ++ plans(run, links) ++ executors(run, links) ++ steps(run) ++
          relocations(run)
    })

  private def heading(run: RunFacts, links: Links): NodeSeq = {
    val query = run.query
    <h4>{query.title} <small class="sub fs-6">query {query.id}, run {query.run}, {
      Words.state(run)
    }</small> <small class="fs-6"><a href={
      links.to(s"/StreamingQuery/statistics/?id=${query.run}")
    }>statistics</a></small></h4>
  }

  private def facts(run: RunFacts): NodeSeq = {
    // Also those that have no worker.
    val executors = (run.hosts ++ run.executors.map(_.executor)).distinct
    val perExecutor =
      executors.map(e => run.workers.filter(_.executor.contains(e)).map(_.bytes).sum)
    val skew =
      if (perExecutor.sum == 0) 1.0
      else perExecutor.max * perExecutor.size / perExecutor.sum.toDouble
    val plan = run.openPlan.filter(_ => run.end.isEmpty).map { plan =>
      val left = if (plan.batchesLeft == 1) "1 batch" else s"${plan.batchesLeft} batches"
      (
        s"${Numbers.exact(plan.movesDone.toLong)} of ${Words.plan(plan)}",
        s"plan ${plan.id} is ${plan.status}, at least $left to go"
      )
    }
    val all = Seq(
      (Numbers.bytes(run.bytes), s"state, ${Numbers.count(run.keys)} keys"),
      (
        if (run.workers.size == 1) "1 worker" else s"${run.workers.size} workers",
        if (run.hosts.size == 1) "on 1 executor" else s"on ${run.hosts.size} executors"
      ),
      (Numbers.ratio(skew), "largest executor to the mean"),
      (
        Numbers
          .median(run.batches.takeRight(Timeline.BarsMax).map(_.durationMs))
          .fold("–")(Numbers.duration),
        "median batch"
      )
    ) :+ plan.getOrElse(("no plan", "is open"))
    <div class="facts">{
      all.map { case (fact, of) => <div><b>{fact}</b><span>{of}</span></div> }
    }</div>
  }

  private def groupOf(
      run: RunFacts,
      group: GroupFacts,
      measure: Measure,
      links: Links
  ): NodeSeq = {
    val choice = Measure.all.map { m =>
      if (m == measure) <b>{m.title}</b>
      else <a href={links.to(s"/megaphone/query/?run=${run.query.run}&by=${m.name}")}>{m.title}</a>
    }
    val strips = HeatMap.strips(group, measure)
    val asOf = group.batch.fold("")(batch => s", as of batch $batch")
    <h5>Operator {s"${group.operator}"}, {group.name}: {
      Numbers.exact(group.workerOfBin.size.toLong)
    } bins{asOf}</h5> ++
      <div class="sub small mb-1">Colour: {separated(choice, " | ")}</div> ++
      HeatMap.drawing(group, strips, measure) ++
      folded(s"workers-${group.operator}", "Numbers by worker")(
        Table[WorkerFacts](
          Column.text("Worker", _.worker.toString),
          Column.text("Executor", _.executor.getOrElse("")),
          Column.number("Bins", w => Numbers.exact(w.bins.toLong)),
          Column.number("Keys", w => Numbers.exact(w.keys)),
          Column.number("Bytes", w => Numbers.exact(w.bytes)),
          Column.number("Standbys", _.standbys.toString),
          Column.number("Bins incomplete", w => Numbers.exact(w.binsIncomplete.toLong)),
          Column.number("Bytes to come", w => Numbers.exact(w.bytesToCome))
        )(group.workers)
      ) ++
      folded(s"bins-${group.operator}", "Numbers by bin") {
        Table[HeatMap.Cell](
          Column.text("Bins", HeatMap.nameOf),
          Column.text("Worker", _.worker.toString),
          Column.number(
            s"${measure.title.capitalize}, mean",
            _.size.fold("not known yet")(Numbers.exact)
          ),
          Column.text(
            "Move next",
            _.moving.map { case (bin, to) => s"$bin to worker $to" }.mkString(", ")
          ),
          Column.text("Came with the last step", _.arrived.mkString(", "))
        )(strips.flatMap(_.cells))
      }
  }

  private def batches(run: RunFacts): NodeSeq =
    Timeline(run).fold(NodeSeq.Empty) { drawing =>
      val recovered = run.recoveries.map(r => r.batch -> r).toMap
      <h5 class="mt-4">Batches and steps</h5> ++ drawing ++
        folded("batches", "Numbers by batch")(
          Table[BatchFacts](
            Column.number("Batch", _.batch.toString),
            Column.number("Duration", b => Numbers.duration(b.durationMs)),
            Column.number("Rows", b => Numbers.exact(b.rows)),
            Column.number("Bins came", b => Numbers.exact(run.movedAt(b.batch).toLong)),
            Column.number("Sub-bins brought", b => Numbers.exact(run.subBinsAt(b.batch).toLong)),
            Column.number("Waited for bins", b => Numbers.duration(run.waitMs(b.batch))),
            Column.number("Workers came", b => run.relocatedAt(b.batch).toString),
            Column.text("Lost", b => run.lossesAt(b.batch).map(Words.loss).mkString(" ")),
            Column.text(
              "Read from files",
              b =>
                recovered.get(b.batch).fold("") { r =>
                  s"${r.workers} workers, ${Numbers.bytes(r.bytes)}"
                }
            )
          )(run.batches.takeRight(Timeline.BarsMax).reverse)
        )
    }

  private def plans(run: RunFacts, links: Links): NodeSeq =
    <h5 class="mt-4">Plans</h5> ++ (
      if (run.plans.isEmpty) <p class="sub">No plan was submitted.</p>
      else PlanTable(run, links) ++ older(run.plans.size - PlanTable.shown(run).size)
    )

  private def executors(run: RunFacts, links: Links): NodeSeq = {
    def of(e: ExecutorFacts) = run.workers.filter(_.executor.contains(e.executor))
    <h5 class="mt-4">Executors</h5> ++ drains(run) ++
      Table[ExecutorFacts](
        Column(
          "Executor",
          isNumber = false,
          e =>
            <a href={links.to("/executors/")}>{e.executor}</a> ++
              <span class="sub"> {e.host}</span>
        ),
        Column.text("State", _.state),
        Column.number("Workers", e => of(e).size.toString),
        Column.number("Bins", e => Numbers.exact(of(e).map(_.bins.toLong).sum)),
        Column.number("Keys", e => Numbers.exact(of(e).map(_.keys).sum)),
        Column.number("In memory, all queries", e => Numbers.bytes(e.bytes)),
        Column(
          "of its budget",
          isNumber = false,
          e => Progress(e.bytes, e.budget, "share of the budget")
        ),
        Column.number("On disk", e => Numbers.bytes(e.bytesOnDisk)),
        Column.number("Replicas", _.replicas.toString),
        Column.number("Blocks published", _.blocks.toString)
      )(run.executors)
  }

  /** What is to be emptied, of all queries. */
  private def drains(run: RunFacts): NodeSeq =
    if (run.end.isDefined) NodeSeq.Empty
    else run.drains.flatMap(drain => <p>{Words.drain(drain)}</p>)

  private def relocations(run: RunFacts): NodeSeq = {
    val last = run.relocations.takeRight(StepsMax)
    if (last.isEmpty) NodeSeq.Empty
    else {
      val title =
        if (last.size == 1) "The last worker that went elsewhere"
        else s"The last ${last.size} workers that went elsewhere"
      folded("relocations", title)(
        Table[RelocationRow](
          Column.number("Worker", _.worker.toString),
          Column.number("Operator", _.operator.toString),
          Column.text("From executor", _.source),
          Column.text("To executor", _.target),
          Column.text("Why", _.why),
          Column.text("Status", r => r.reason.fold(r.status)(why => s"${r.status}: $why")),
          Column.number("Batch", _.batch.fold("–")(_.toString)),
          Column.number("Bytes", _.bytes.fold("–")(Numbers.bytes)),
          Column.number("Of them there", _.bytesReady.fold("–")(Numbers.bytes))
        )(last.reverse)
      )
    }
  }

  private def older(count: Int): NodeSeq =
    if (count <= 0) NodeSeq.Empty
    else <p class="sub">{s"$count older ones are not shown."}</p>

  private def steps(run: RunFacts): NodeSeq = {
    val last = run.steps.takeRight(StepsMax)
    if (last.isEmpty) NodeSeq.Empty
    else
      folded("steps", s"The last ${last.size} steps")(
        Table[StepFacts](
          Column.text("Plan", _.plan),
          Column.number("Step", _.step.toString),
          Column.number("Operator", _.operator.toString),
          Column.number("Batch", _.batch.toString),
          Column.number("Bins moved", _.moved.toString),
          Column.number("Bins stayed", _.stayed.toString),
          Column.number("Bytes from executors", s => Numbers.bytes(s.bytesFromPeer)),
          Column.number("Bytes from the checkpoint", s => Numbers.bytes(s.bytesFromCheckpoint)),
          Column.number("Longest wait", s => Numbers.duration(s.waitMs))
        )(last.reverse)
      )
  }

  private def separated(parts: Vector[Node], by: String): NodeSeq =
    parts.zipWithIndex.flatMap { case (part, i) =>
      if (i == 0) Seq(part) else Seq(scala.xml.Text(by), part)
    }

  /** What a reader may want, but not at once. The page's script keeps it open by its id. */
  private def folded(id: String, summary: String)(content: NodeSeq): Elem =
    <details id={s"megaphone-$id"}><summary>{summary}</summary>{content}</details>

  private val StepsMax = 100
}
