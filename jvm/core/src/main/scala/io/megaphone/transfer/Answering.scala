// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.WorkerId
import io.megaphone.state.{Export, Registry}

/** Answers the questions of other executors about what steps on demand took from workers of this
  * one.
  *
  * ''Dies:'' the files have what was exported, at the same name.
  *
  * Threads: any.
  *
  * @param restBytes
  *   about how many bytes of records an answer about a rest has: nobody waits long behind it
  * @param dueBytes
  *   the same, of an answer about rows that are due: a task waits for all of them
  * @param subBinBytes
  *   the same, of an answer about some sub-bins: who asks knows how many it needs, and not how many
  *   records each has
  * @param looks
  *   about how many keys an answer looks at to find what is due: others ask, too
  */
final class Answering(
    registry: Registry,
    restBytes: Int = Answering.RestBytes,
    dueBytes: Int = Answering.TaskBytes,
    looks: Int = Answering.Looks,
    subBinBytes: Int = Answering.TaskBytes
) {

  def apply(question: Question): Answer =
    registry.exports.of(question.key, question.name, question.keys.keys.toSeq) match {
      case Some(lender) if isAsTold(question, lender) =>
        answered(question, lender).getOrElse(Answer.Gone)
      case Some(_) => Answer.Gone // the files will show what is wrong
      case None =>
        val source = WorkerId(question.key.store, question.key.source)
        if (registry.mayReach(source, question.name)) Answer.NotYet else Answer.Gone
    }

  /** Whether the bins have as many keys as who asks was told. */
  private def isAsTold(question: Question, lender: Export) =
    question.keys.forall { case (bin, keys) => lender.keysOf(bin) == keys }

  private def answered(question: Question, lender: Export): Option[Answer] = question match {
    case Question.SubBins(_, _, _, hashes) =>
      lender.subBins(hashes, subBinBytes).map(Answer.SubBins(_))
    case Question.Rest(_, _, _, bin, from, here) =>
      lender.from(bin, from, here, restBytes).map(Answer.Rest(_))
    case Question.AllDue(_, _, _, bins, from, due) =>
      lender.due(bins, from, due, dueBytes, looks).map(Answer.AllDue(_))
  }
}

private[megaphone] object Answering {
  private val RestBytes = 1 << 20
  private val Looks = 1 << 20

  /** About how many bytes of records an answer has that a task waits for. */
  val TaskBytes: Int = 4 << 20
}
