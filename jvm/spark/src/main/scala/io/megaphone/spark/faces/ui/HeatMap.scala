// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq}

import io.megaphone.placement.Member
import io.megaphone.spark.faces.history.{GroupFacts, Measure}

/** Where the bins of a group are: executors, under each its workers, per worker a strip of cells
  * coloured by size, then a bar with the worker's sum.
  *
  * A cell is a bin. Of more than `CellsMax` bins a cell stands for 2, 4, 8, … of a worker, and its
  * colour for their mean.
  */
private[ui] object HeatMap {
  val CellsMax = 2048

  /** @param bins
    *   of one worker, ascending
    * @param size
    *   the mean of those that are known; None if none is
    */
  final case class Cell(
      bins: Vector[Int],
      worker: Int,
      size: Option[Long],
      moving: Vector[(Int, Int)],
      arrived: Vector[Int]
  )

  /** A worker.
    *
    * @param bins
    *   number of its bins
    * @param sum
    *   of the sizes of its bins
    */
  final case class Strip(
      worker: Int,
      executor: Option[String],
      bins: Int,
      sum: Long,
      cells: Vector[Cell]
  )

  /** The workers of a group, ascending: those that are known, and those that bins are on. Each bin
    * is in exactly one cell.
    */
  def strips(group: GroupFacts, measure: Measure): Vector[Strip] = {
    val together = Iterator
      .iterate(1)(_ * 2)
      .find(group.workerOfBin.size <= CellsMax * _)
      .get
    val binsOf = group.workerOfBin.zipWithIndex.groupMap(_._1)(_._2)
    val facts = group.workers.map(w => w.worker -> w).toMap
    (facts.keySet ++ binsOf.keySet).toVector.sorted.map { worker =>
      val (bins, known) = (binsOf.getOrElse(worker, Vector.empty), facts.get(worker))
      val sum = measure match {
        case Measure.Bytes => known.fold(0L)(_.bytes)
        case Measure.Keys => known.fold(0L)(_.keys)
        case Measure.Written => bins.flatMap(group.sizeOf(_, measure)).sum
      }
      val cells = bins.grouped(together).toVector.map(cellOf(group, measure, worker, _))
      Strip(worker, known.flatMap(_.executor), bins.size, sum, cells)
    }
  }

  private def cellOf(group: GroupFacts, measure: Measure, worker: Int, bins: Vector[Int]) = {
    val known = bins.flatMap(group.sizeOf(_, measure))
    Cell(
      bins,
      worker,
      Option.when(known.nonEmpty)(known.sum / known.size),
      bins.flatMap(bin => group.moving.get(bin).map(bin -> _)),
      bins.filter(group.arrived)
    )
  }

  /** The colour of a cell: 0 of nothing or of what is not known, else 1 to 5 by the root of the
    * share of the largest, so that a few large bins do not make all others look alike.
    */
  def level(size: Long, max: Long): Int =
    if (size <= 0) 0
    else math.min(Levels, 1 + (math.sqrt(size.toDouble / math.max(1L, max)) * Levels).toInt)

  def apply(group: GroupFacts, measure: Measure): Elem =
    drawing(group, strips(group, measure), measure)

  /** The same, of the group's strips. */
  def drawing(group: GroupFacts, all: Vector[Strip], measure: Measure): Elem = {
    val max = all.flatMap(_.cells).flatMap(_.size).maxOption.getOrElse(0L)
    val sumMax = math.max(1L, all.map(_.sum).maxOption.getOrElse(0L))
    val content = NodeSeq.newBuilder
    var y = 0
    for ((executor, own) <- byExecutor(all)) {
      content += Svg.line("grid", 0, y, Width, y)
      content += Svg.text("", 0, y + 13, executor.fold("executor not known yet")("executor " + _))
      y += 22
      for (strip <- own) {
        content += Svg.text("s", 8, y + 8, s"worker ${strip.worker}")
        for ((cell, i) <- strip.cells.zipWithIndex)
          content ++= drawn(cell, max, measure, Left + i % PerRow * Pitch, y + i / PerRow * Pitch)
        val bar = (strip.sum.toDouble * BarWidth / sumMax).toInt
        content += Svg.rect("bar", BarLeft, y, bar, CellSize)
        val words = s"${shown(strip.sum, measure)}, ${strip.bins} bins"
        content += Svg.text("s", BarLeft + BarWidth + 6, y + 8, words)
        y += math.max(1, (strip.cells.size + PerRow - 1) / PerRow) * Pitch + RowGap
      }
    }
    content ++= legend(group, all, max, measure, y + 6)
    val label = s"Bins of operator ${group.operator} by executor and worker, coloured by their " +
      s"${measure.title}; the numbers are in the tables below"
    Svg.drawing(Width, y + 24, label)(content.result())
  }

  /** The strips of each executor; those whose executor is not known come last. */
  private def byExecutor(all: Vector[Strip]): Vector[(Option[String], Vector[Strip])] = {
    val stripsOf = all.groupBy(_.executor)
    val known = stripsOf.keysIterator.flatten.toVector.sorted(Member.order).map(Option(_))
    (known :+ None).flatMap(executor => stripsOf.get(executor).map(executor -> _))
  }

  def shown(size: Long, measure: Measure): String = measure match {
    case Measure.Keys => s"${Numbers.count(size)} keys"
    case _ => Numbers.bytes(size)
  }

  /** The bins of a cell, in words. */
  def nameOf(cell: Cell): String = cell.bins match {
    case Vector(bin) => s"bin $bin"
    case bins => s"${bins.size} bins from ${bins.head} to ${bins.last}"
  }

  /** What a cell is, in words. */
  def titleOf(cell: Cell, measure: Measure): String = {
    val each = if (cell.bins.size > 1) " each" else ""
    val size = cell.size.fold("size not known yet")(shown(_, measure) + each)
    val next = cell.moving match {
      case Vector() => ""
      case Vector((bin, to)) => s", bin $bin moves to worker $to next"
      case several => s", ${several.size} of them move next"
    }
    val came = if (cell.arrived.nonEmpty) ", came with the last step" else ""
    s"${nameOf(cell)}, $size, on worker ${cell.worker}$next$came"
  }

  private def drawn(cell: Cell, max: Long, measure: Measure, x: Int, y: Int): NodeSeq = {
    val level = this.level(cell.size.getOrElse(0L), max)
    val frame = if (cell.arrived.nonEmpty) " arrived" else ""
    val base = Svg.rect(s"c$level$frame", x, y, CellSize, CellSize, titleOf(cell, measure))
    if (cell.moving.isEmpty) base
    else
      base ++ (Svg.rect("moving", x, y, CellSize, CellSize) %
        new scala.xml.UnprefixedAttribute("pointer-events", "none", scala.xml.Null))
  }

  private def legend(
      group: GroupFacts,
      all: Vector[Strip],
      max: Long,
      measure: Measure,
      y: Int
  ): NodeSeq = {
    val content = NodeSeq.newBuilder
    var x = Left
    def text(words: String): Unit = {
      content += Svg.text("s", x, y + 10, words)
      x += Svg.widthOf(words) + 8
    }
    def box(kinds: String*): Unit = {
      kinds.foreach(kind => content += Svg.rect(kind, x, y, LegendBox, LegendBox))
      x += LegendBox + 4
    }
    val together = all.flatMap(_.cells).map(_.bins.size).maxOption.getOrElse(1)
    text(s"${measure.title} of ${if (together == 1) "a bin" else s"each of $together bins"}:")
    text("0")
    (0 to Levels).foreach(level => box(s"c$level"))
    x += 4
    text(shown(max, measure))
    x += 16
    if (group.moving.nonEmpty) { box("c2", "moving"); text("moves next"); x += 16 }
    if (group.arrived.nonEmpty) { box("c2 arrived"); text("came with the last step") }
    content.result()
  }

  private val Levels = 5
  private val Left = 86
  private val CellSize = 8
  private val Pitch = CellSize + 1
  private val PerRow = 96
  private val RowGap = 5
  private val BarWidth = 70
  private val BarLeft = Left + PerRow * Pitch + 8
  private val Width = BarLeft + BarWidth + 150
  private val LegendBox = 11
}
