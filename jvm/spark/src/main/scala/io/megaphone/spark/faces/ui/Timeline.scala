// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq}

import io.megaphone.spark.faces.history.{BatchFacts, RunFacts}

/** The last batches: a bar each, of it in orange the time that the batch waited for bins; plans as
  * shaded spans; a line where executors were lost, a dot where workers came to other executors. The
  * scale ends at one and a half times the 98th percentile, so that a first batch does not flatten
  * the others; longer bars are cut.
  */
private[ui] object Timeline {
  val BarsMax = 160

  /** The duration at which the scale ends. */
  def top(durations: Seq[Long]): Long = {
    val sorted = durations.sorted
    math.max(1L, math.min(sorted.last, sorted((sorted.size - 1) * 98 / 100) * 3 / 2))
  }

  /** None if no batch is known. */
  def apply(run: RunFacts): Option[Elem] = {
    val batches = run.batches.takeRight(BarsMax)
    Option.when(batches.nonEmpty)(draw(run, batches))
  }

  private def draw(run: RunFacts, batches: Vector[BatchFacts]): Elem = {
    val top = this.top(batches.map(_.durationMs))
    val width = math.max(MinWidth, Left + batches.size * Pitch + 10)
    def height(ms: Long): Int = (math.min(top, ms) * Full / top).toInt
    def x(i: Int): Int = Left + i * Pitch
    val lines = Seq(0, 1, 2).flatMap { k =>
      val y = Bottom - Full * k / 2
      Seq(
        Svg.line("grid", Left, y, width, y),
        Svg.text("s e", Left - 6, y + 4, Numbers.duration(top * k / 2))
      )
    }
    val bars = batches.zipWithIndex.flatMap { case (batch, i) =>
      val (whole, waited) = (height(batch.durationMs), height(run.waitMs(batch.batch)))
      val part = math.min(whole, waited)
      Seq(
        Svg.rect("bar", x(i), Bottom - whole, Pitch - 1, whole, titleOf(run, batch)),
        Svg.rect("wait", x(i), Bottom - part, Pitch - 1, part, titleOf(run, batch))
      )
    }
    val marks = batches.zipWithIndex.flatMap { case (batch, i) =>
      val middle = x(i) + Pitch / 2
      val lost = run.lossesAt(batch.batch)
      val came = run.relocatedAt(batch.batch)
      val words = s"${Words.workers(came)} came to other executors"
      (if (lost.isEmpty) NodeSeq.Empty
       else Svg.line("loss", middle, Top, middle, Bottom, lost.map(Words.loss).mkString(" "))) ++
        (if (came == 0) NodeSeq.Empty else Svg.dot("came", middle, Bottom + 4, words))
    }
    val first = Svg.text("s", Left, Bottom + 14, s"batch ${batches.head.batch}")
    val last = // beside the first it would overlap
      if (batches.size < FewBars) NodeSeq.Empty
      else Svg.text("s e", x(batches.size) - 1, Bottom + 14, s"${batches.last.batch}")
    Svg.drawing(
      width,
      Bottom + 36,
      "Duration of the last batches, with the time that they waited for bins, the plans, the " +
        "executors that were lost, and the workers that came to others; the numbers are in the " +
        "table below"
    )(lines ++ spans(run, batches, x, width) ++ bars ++ marks ++ first ++ last ++ legend)
  }

  /** A span from a plan's first step to its last one yet; names that would overlap are left out,
    * for the spans say them too.
    */
  private def spans(
      run: RunFacts,
      batches: Vector[BatchFacts],
      x: Int => Int,
      width: Int
  ): NodeSeq = {
    val numbers = batches.map(_.batch)
    var free = 0
    run.plans.flatMap { plan =>
      val from = numbers.indexWhere(plan.batches.headOption.getOrElse(Long.MaxValue) <= _)
      val to = numbers.lastIndexWhere(plan.batches.lastOption.getOrElse(-1L) >= _)
      if (from < 0 || to < from) NodeSeq.Empty
      else {
        val (left, right) = (x(from), x(to + 1) - 1)
        val name = s"${plan.id}: ${Words.plan(plan)}"
        val isAtEnd = left + 3 + Svg.widthOf(name) > width
        val start = if (isAtEnd) width - Svg.widthOf(name) else left + 3
        val label =
          if (start < free) NodeSeq.Empty
          else {
            free = start + Svg.widthOf(name)
            if (isAtEnd) Svg.text("s e", width - 2, 10, name) else Svg.text("s", start, 10, name)
          }
        Svg.rect("span", left, Top, right - left, Bottom - Top, name) ++
          Svg.line("mark", left, Top, left, Bottom) ++ label
      }
    }
  }

  private def titleOf(run: RunFacts, batch: BatchFacts): String =
    s"batch ${batch.batch}: ${Numbers.duration(batch.durationMs)}, " +
      s"${Numbers.exact(batch.rows)} rows, waited ${Numbers.duration(run.waitMs(batch.batch))} " +
      s"for bins, ${Numbers.exact(run.movedAt(batch.batch).toLong)} bins came" +
      run.lossesAt(batch.batch).map(loss => s". Lost: ${Words.loss(loss)}").mkString

  private def legend: NodeSeq =
    Seq(
      ("bar", 0, "duration"),
      ("wait", 90, "of it, waiting for bins"),
      ("span", 250, "steps of a plan")
    ).flatMap { case (kind, x, words) =>
      Seq(
        Svg.rect(kind, Left + x, Bottom + 22, 10, 10),
        Svg.text("s", Left + x + 14, Bottom + 31, words)
      )
    } ++ Seq(
      Svg.line("loss", Left + 367, Bottom + 22, Left + 367, Bottom + 32, "executor lost"),
      Svg.text("s", Left + 376, Bottom + 31, "executor lost"),
      Svg.dot("came", Left + 470, Bottom + 27, "workers came"),
      Svg.text("s", Left + 479, Bottom + 31, "workers came to other executors")
    )

  private val Left = 66
  private val Top = 14
  private val Bottom = 134
  private val Full = Bottom - Top - 4
  private val Pitch = 7
  private val MinWidth = 700
  private val FewBars = 20
}
