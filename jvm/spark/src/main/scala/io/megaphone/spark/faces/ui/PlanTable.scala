// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq, Text}

import io.megaphone.spark.faces.history.{BatchFacts, PlanFacts, RunFacts, StepFacts}

/** The plans of a run, newest first: what they do, how far they are and what they cost. */
private[ui] object PlanTable {

  /** @param before
    *   median duration of the batches before the plan
    * @param during
    *   from when it was submitted to its last step, or to now
    * @param after
    *   of those after it
    */
  final case class Medians(before: Option[Long], during: Option[Long], after: Option[Long]) {
    override def toString: String = Seq(before, during, after).flatten match {
      case Seq() => ""
      case _ => Seq(before, during, after).map(_.fold("–")(Numbers.duration)).mkString(", ")
    }
  }

  /** The medians of a plan, each of at most `Around` batches before and after; none of a plan that
    * had ended before this run.
    */
  def medians(plan: PlanFacts, batches: Vector[BatchFacts]): Medians =
    plan.seenAt.fold(Medians(None, None, None)) { seen =>
      val last = if (plan.isOpen) Long.MaxValue else plan.batches.lastOption.getOrElse(seen)
      def of(some: Long => Boolean) =
        Numbers.median(batches.filter(b => some(b.batch)).map(_.durationMs))
      Medians(
        of(batch => batch <= seen && batch > seen - Around),
        of(batch => batch > seen && batch <= last),
        of(batch => batch > last && batch - Around <= last)
      )
    }

  /** The plans that a page shows: the newest, because it is asked for every few seconds, and those
    * that are open.
    */
  def shown(run: RunFacts): Vector[PlanFacts] = {
    val newest = run.plans.takeRight(PlansMax).map(_.id).toSet
    run.plans.filter(plan => plan.isOpen || newest(plan.id))
  }

  def apply(run: RunFacts, links: Links): Elem = {
    val steps = run.steps.groupBy(_.plan).withDefaultValue(Vector.empty)
    // Of a plan from before this run, or of long ago, not all steps are known.
    def ofSteps(plan: PlanFacts)(sum: Vector[StepFacts] => String) =
      if (steps(plan.id).size < plan.stepsDone) "–" else sum(steps(plan.id))
    Table[PlanFacts](
      Column("Plan", isNumber = false, p => <code>{p.id}</code>),
      Column.text("What", Words.plan),
      Column("Status", isNumber = false, status),
      Column("Moves", isNumber = false, progress),
      Column.text("Strategy, mode", p => s"${p.strategy}, ${p.mode}"),
      Column.number("Batches", p => range(p.batches)),
      Column.number(
        "Bytes from executors",
        ofSteps(_)(steps => Numbers.bytes(steps.map(_.bytesFromPeer).sum))
      ),
      Column.number(
        "from the checkpoint",
        ofSteps(_)(steps => Numbers.bytes(steps.map(_.bytesFromCheckpoint).sum))
      ),
      Column.number(
        "Longest wait",
        ofSteps(_)(_.map(_.waitMs).maxOption.fold("")(Numbers.duration))
      ),
      Column.number("Median batch before, during, after", p => medians(p, run.batches).toString),
      Column("", isNumber = false, cancel(_, links))
    )(shown(run).reverse)
  }

  private def status(plan: PlanFacts): NodeSeq =
    Text(plan.status) ++ plan.reason.fold(NodeSeq.Empty)(r => <div class="small sub">{r}</div>)

  private def progress(plan: PlanFacts): NodeSeq = {
    val colour = plan.status match {
      case "failed" => "bg-danger"
      case "cancelled" => "bg-secondary"
      case _ => ""
    }
    val percent = 100L * plan.movesDone / math.max(1, plan.moves)
    val words = s"${Numbers.exact(plan.movesDone.toLong)} of " +
      s"${Numbers.exact(plan.moves.toLong)}, ${plan.stepsDone} of ${plan.steps} steps"
    Progress.bar(percent, s"moves of plan ${plan.id}", colour) ++
      <span class="small text-nowrap">{words}</span>
  }

  private def range(batches: Vector[Long]): String = batches match {
    case Vector() => ""
    case Vector(one) => one.toString
    case several => s"${several.head}–${several.last}"
  }

  private def cancel(plan: PlanFacts, links: Links): NodeSeq =
    Option.when(plan.isOpen)(plan.id).flatMap(links.cancel).fold(NodeSeq.Empty) { action =>
      <form method="post" action={action}><button
        class="btn btn-sm btn-outline-danger py-0">Cancel</button></form>
    }

  private val Around = 20
  private val PlansMax = 50
}
