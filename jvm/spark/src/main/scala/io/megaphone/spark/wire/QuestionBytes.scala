// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import io.megaphone.format.{Decoder, Encoder}
import io.megaphone.plan.StepId
import io.megaphone.state.{ForStep, ReplicaKey, Stretch, SubBin}
import io.megaphone.transfer.{Answer, Question}

/** Questions about what a step on demand took, as bytes. */
private[wire] object QuestionBytes {
  private val SubBins = 1
  private val Rest = 2

  def encode(out: Encoder, question: Question): Encoder = {
    val ReplicaKey(store, source, ForStep(step, target)) = question.key
    out.byte(question match { case _: Question.SubBins => SubBins; case _: Question.Rest => Rest })
    WireParts
      .store(out, store)
      .int(source)
      .int(target)
      .string(step.planId)
      .long(step.group)
      .int(step.index)
    WireParts.name(out, question.name)
    question match {
      case Question.SubBins(_, _, hashes) =>
        out.seq(hashes) { case (bin, some) =>
          out.int(bin).seq(some.toSeq)(h => { out.int(h); () }); ()
        }
      case Question.Rest(_, _, bin, from) => out.int(bin).int(from)
    }
  }

  /** Throws DamagedFileException. */
  def decode(in: Decoder): Question = {
    val kind = in.byte()
    val store = WireParts.store(in)
    val (source, target) = (in.int(), in.int())
    val step = StepId(in.string(), in.long(), in.int())
    val key = ReplicaKey.forStep(store, source, target, step)
    val name = WireParts.name(in)
    kind match {
      case SubBins => Question.SubBins(key, name, in.seq(in.int() -> in.seq(in.int()).toArray))
      case Rest => Question.Rest(key, name, in.int(), in.int())
      case other => in.fail("a question of kind 1 or 2", s"$other")
    }
  }
}

/** Answers to them, as bytes, with a checksum: what is taken in is as good as a file's. */
private[spark] object AnswerBytes {
  private val Gone = 0
  private val NotYet = 1
  private val SubBins = 2
  private val Rest = 3

  private[wire] def encode(out: Encoder, answer: Answer): Unit = {
    val body = new Encoder(BodyBytes)
    answer match {
      case Answer.Gone => body.byte(Gone)
      case Answer.NotYet => body.byte(NotYet)
      case Answer.SubBins(found) =>
        body.byte(SubBins).seq(found) { case (bin, some) =>
          body.int(bin).seq(some)(subBin(body, _)); ()
        }
      case Answer.Rest(Stretch(some, next)) =>
        body.byte(Rest).seq(some)(subBin(body, _)).option(next)(h => { body.int(h); () })
    }
    WireParts.checked(out, body.toBytes)
    ()
  }

  /** Throws DamagedFileException. */
  def decode(bytes: Array[Byte]): Answer = {
    val in = new Decoder(Name, WireParts.checked(new Decoder(Name, bytes), Name))
    in.byte() match {
      case Gone => Answer.Gone
      case NotYet => Answer.NotYet
      case SubBins => Answer.SubBins(in.seq(in.int() -> in.seq(subBin(in))))
      case Rest => Answer.Rest(Stretch(in.seq(subBin(in)), in.option(in.int())))
      case other => in.fail("an answer of kind 0 to 3", s"$other")
    }
  }

  private def subBin(out: Encoder, subBin: SubBin): Unit = {
    out.int(subBin.hash).blob(subBin.records); ()
  }
  private def subBin(in: Decoder): SubBin = SubBin(in.int(), in.blob())

  private val Name = "an answer of another executor"
  private val BodyBytes = 1 << 12
}
