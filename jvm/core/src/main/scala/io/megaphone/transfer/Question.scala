// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.StateName
import io.megaphone.log.Due
import io.megaphone.plan.Bins
import io.megaphone.state.{DueSubBins, ReplicaKey, Stretch, SubBin}

/** What a target asks the executor that ran the source of a step on demand. Each is a pure read by
  * full name, so it may be lost, asked twice, or answered late.
  */
sealed trait Question {

  /** The export that is asked for. */
  def key: ReplicaKey

  /** The state of the source that the step took. */
  def name: StateName

  /** How many keys each bin had then, as the asker was told: all bins that it asks about, and maybe
    * others of the export. If a number is wrong there is no answer.
    */
  def keys: Map[Int, Long]

  /** Whether an answer is one to such a question, with sub-bins of bins that it is about only. One
    * that was taken in at another bin would never be found there, and its key would count twice.
    *
    * @param binsCount
    *   how many bins the query has
    */
  final def isAnsweredBy(answer: Answer, binsCount: Int): Boolean = {
    def areOf(bin: Int, some: Vector[SubBin]) =
      keys.contains(bin) && some.forall(subBin => Bins.of(subBin.hash, binsCount) == bin)
    (this, answer) match {
      case (_: Question.SubBins, Answer.SubBins(found)) =>
        found.forall { case (bin, some) => areOf(bin, some) }
      case (rest: Question.Rest, Answer.Rest(stretch)) =>
        areOf(rest.bin, stretch.subBins) && stretch.next.forall(_ > rest.from)
      case (_: Question.AllDue, Answer.AllDue(found)) =>
        found.forall(due => areOf(due.bin, due.stretch.subBins))
      case _ => false
    }
  }
}

object Question {

  /** Some sub-bins, by bin and hash. */
  final case class SubBins(
      key: ReplicaKey,
      name: StateName,
      keys: Map[Int, Long],
      hashes: Vector[(Int, Array[Int])]
  ) extends Question {

    /** How many sub-bins are asked for. */
    def size: Int = hashes.iterator.map(_._2.length).sum
  }

  /** The sub-bins of one bin from a hash on, ascending, as many as an answer has room for.
    *
    * @param here
    *   hashes from that one on, ascending, whose sub-bins the asker has: they are left out
    */
  final case class Rest(
      key: ReplicaKey,
      name: StateName,
      keys: Map[Int, Long],
      bin: Int,
      from: Int,
      here: Array[Int]
  ) extends Question

  /** The sub-bins of some bins that have a row which is due, in the first one from a hash on; as
    * many as an answer has room for.
    */
  final case class AllDue(
      key: ReplicaKey,
      name: StateName,
      keys: Map[Int, Long],
      bins: Vector[Int],
      from: Int,
      due: Due
  ) extends Question
}

/** An answer as it has come.
  *
  * @param bytes
  *   what another executor has sent for it
  * @param isLate
  *   whether it has not come in its time
  */
final case class Heard(answer: Answer, bytes: Long, isLate: Boolean = false)

object Heard {

  /** There is no answer. */
  val Nothing: Heard = Heard(Answer.Gone, 0)

  /** No answer has come in its time. */
  val Late: Heard = Nothing.copy(isLate = true)
}

sealed trait Answer

object Answer {

  /** The export is not to be had there: the files have all of it. */
  case object Gone extends Answer

  /** The source's next task may still come to the name there: ask again. */
  case object NotYet extends Answer

  /** What was asked for, by bin, in that order, as much as an answer has room for; also sub-bins
    * that have no record.
    */
  final case class SubBins(found: Vector[(Int, Vector[SubBin])]) extends Answer
  final case class Rest(stretch: Stretch) extends Answer

  /** Of some of the bins, in the order that was asked for. The last may go on. */
  final case class AllDue(found: Vector[DueSubBins]) extends Answer
}
