// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq}

import io.megaphone.spark.faces.history.{GroupFacts, Measure, RunFacts, WorkerFacts}

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

  /** The cells of a group, by worker. Each bin is in exactly one. */
  def cells(group: GroupFacts, measure: Measure): Vector[Vector[Cell]] = {
    val together = Iterator
      .iterate(1)(_ * 2)
      .find(group.workerOfBin.size <= CellsMax * _)
      .get
    val binsOf = group.workerOfBin.zipWithIndex.groupMap(_._1)(_._2)
    val workers = math.max(group.workers.size, binsOf.keysIterator.maxOption.fold(0)(_ + 1))
    Vector.tabulate(workers) { worker =>
      binsOf.getOrElse(worker, Vector.empty).grouped(together).toVector.map { bins =>
        val known = bins.flatMap(group.sizeOf(_, measure))
        Cell(
          bins,
          worker,
          Option.when(known.nonEmpty)(known.sum / known.size),
          bins.flatMap(bin => group.moving.get(bin).map(bin -> _)),
          bins.filter(group.arrived)
        )
      }
    }
  }

  /** The colour of a cell: 0 of nothing or of what is not known, else 1 to 5 by the root of the
    * share of the largest, so that a few large bins do not make all others look alike.
    */
  def level(size: Long, max: Long): Int =
    if (size <= 0) 0
    else math.min(Levels, 1 + (math.sqrt(size.toDouble / math.max(1L, max)) * Levels).toInt)

  def apply(group: GroupFacts, measure: Measure): Elem = {
    val byWorker = cells(group, measure)
    val max = byWorker.flatten.flatMap(_.size).maxOption.getOrElse(0L)
    val sums = group.workers.map(sumOf(group, _, measure))
    val content = NodeSeq.newBuilder
    var y = 0
    for ((executor, workers) <- byExecutor(group, byWorker.size)) {
      content += Svg.line("grid", 0, y, Width, y)
      content += Svg.text("", 0, y + 13, executor.fold("executor not known yet")("executor " + _))
      y += 22
      for (worker <- workers) {
        val own = byWorker(worker)
        content += Svg.text("s", 8, y + 8, s"worker $worker")
        for ((cell, i) <- own.zipWithIndex)
          content ++= drawn(cell, max, measure, Left + i % PerRow * Pitch, y + i / PerRow * Pitch)
        val sum = sums.lift(worker).getOrElse(0L)
        val bar = (sum.toDouble * BarWidth / math.max(1L, sums.maxOption.getOrElse(0L))).toInt
        content += Svg.rect("bar", BarLeft, y, bar, CellSize)
        val bins = group.workers.lift(worker).fold(0)(_.bins)
        content += Svg.text(
          "s",
          BarLeft + BarWidth + 6,
          y + 8,
          s"${shown(sum, measure)}, $bins bins"
        )
        y += math.max(1, (own.size + PerRow - 1) / PerRow) * Pitch + RowGap
      }
    }
    content ++= legend(group, byWorker, max, measure, y + 6)
    val label = s"Bins of operator ${group.operator} by executor and worker, coloured by their " +
      s"${measure.title}; the numbers are in the tables below"
    Svg.drawing(Width, y + 24, label)(content.result())
  }

  /** The workers of each executor; those whose executor is not known come last. */
  private def byExecutor(group: GroupFacts, count: Int): Vector[(Option[String], Vector[Int])] = {
    val workersOf = (0 until count).toVector
      .groupBy(worker => group.workers.lift(worker).flatMap(_.executor))
    val known = RunFacts.inOrder(workersOf.keysIterator.flatten.toVector).map(Option(_))
    (known :+ None).flatMap(e => workersOf.get(e).map(e -> _))
  }

  private def sumOf(group: GroupFacts, worker: WorkerFacts, measure: Measure): Long =
    measure match {
      case Measure.Bytes => worker.bytes
      case Measure.Keys => worker.keys
      case Measure.Written =>
        group.workerOfBin.indices.iterator
          .filter(group.workerOfBin(_) == worker.worker)
          .flatMap(group.sizeOf(_, measure))
          .sum
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
      byWorker: Vector[Vector[Cell]],
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
    val together = byWorker.flatten.map(_.bins.size).maxOption.getOrElse(1)
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
