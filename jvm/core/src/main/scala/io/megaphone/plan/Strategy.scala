// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import java.util.Locale

import io.megaphone.errors.InvalidPlanException

/** How moves are grouped into steps (Megaphone, section 3.3, PVLDB 12(9)); [[Strategies]] does it.
  * Prints as the text that [[Strategy.parse]] reads.
  *
  * @param name
  *   its name without the size of its steps
  */
sealed abstract class Strategy(val name: String) extends Serializable {
  override def toString: String = name
}

object Strategy {

  /** One step: the shortest migration, the highest peak. */
  case object AllAtOnce extends Strategy("all-at-once")

  /** One bin a step: the longest migration, the lowest peak. */
  case object Fluid extends Strategy("fluid")

  /** The same number of bins in each step, but for the last.
    *
    * @param binsPerStep
    *   1 or more; None takes a sixteenth of the moves, so that any plan has at most sixteen steps
    * @throws InvalidPlanException
    *   INVALID_BATCH_SIZE
    */
  final case class Batched(binsPerStep: Option[Int] = None) extends Strategy("batched") {
    binsPerStep.foreach(bins => if (bins < 1 || bins > Bins.Max) invalidBatchSize(bins.toString))

    /** How many bins a step moves when there are this many moves. */
    def binsPerStep(moves: Int): Int = binsPerStep.getOrElse(math.max(1, (moves + 15) / 16))

    override def toString: String = binsPerStep.fold(name)(bins => s"$name($bins)")
  }

  object Batched {
    def apply(binsPerStep: Int): Batched = Batched(Some(binsPerStep))
  }

  /** As many bins a step as can move with no worker sending twice or receiving twice. */
  case object Optimized extends Strategy("optimized")

  /** What [[parse]] reads. */
  val Allowed: Vector[String] =
    Vector("all-at-once", "fluid", "batched", "batched(<bins per step>)", "optimized")
  private val BatchedOf = """batched\(\s*(.*?)\s*\)""".r

  /** The strategy of this name, in any case: `all-at-once`, `fluid`, `batched`, `batched(8)` or
    * `optimized`.
    *
    * @throws InvalidPlanException
    *   UNKNOWN_STRATEGY or INVALID_BATCH_SIZE
    */
  def parse(text: String): Strategy = text.trim.toLowerCase(Locale.ROOT) match {
    case AllAtOnce.name => AllAtOnce
    case Fluid.name => Fluid
    case "batched" => Batched()
    case BatchedOf(bins) => Batched(bins.toIntOption.getOrElse(invalidBatchSize(bins)))
    case Optimized.name => Optimized
    case _ => throw new InvalidPlanException.UnknownStrategy(text, Allowed)
  }

  private def invalidBatchSize(bins: String): Nothing =
    throw new InvalidPlanException.InvalidBatchSize(bins, Bins.Max)
}
