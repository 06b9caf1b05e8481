// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import io.megaphone.format.{Compression, Decoder, Encoder}
import io.megaphone.log.{Due, RowTime}
import io.megaphone.plan.StepId
import io.megaphone.spark.checkpoint.Lz4
import io.megaphone.state.{DueSubBins, ForStep, ReplicaKey, Stretch, SubBin}
import io.megaphone.transfer.{Answer, Question}

/** Questions about what a step on demand took, as bytes. */
private[wire] object QuestionBytes {
  private val SubBins = 1
  private val Rest = 2
  private val AllDue = 3

  def encode(out: Encoder, question: Question): Encoder = {
    val ReplicaKey(store, source, ForStep(step, target)) = question.key
    out.byte(question match {
      case _: Question.SubBins => SubBins
      case _: Question.Rest => Rest
      case _: Question.AllDue => AllDue
    })
    WireParts
      .store(out, store)
      .int(source)
      .int(target)
      .string(step.planId)
      .long(step.group)
      .int(step.index)
    WireParts.name(out, question.name)
    out.seq(question.keys.toSeq) { case (bin, keys) => out.int(bin).long(keys); () }
    question match {
      case Question.SubBins(_, _, _, hashes) =>
        out.seq(hashes) { case (bin, some) =>
          out.int(bin).seq(some.toSeq)(h => { out.int(h); () }); ()
        }
      case Question.Rest(_, _, _, bin, from, here) =>
        ascending(out.int(bin).int(from), from, here)
      case Question.AllDue(_, _, _, bins, from, due) =>
        out.seq(bins)(bin => { out.int(bin); () }).int(from)
        encode(out, due.time).long(due.until).long(due.from)
    }
  }

  /** Numbers from one on, each as its distance from the one before. */
  private def ascending(out: Encoder, from: Int, numbers: Array[Int]): Encoder = {
    var last = from.toLong
    out.seq(numbers) { n => out.varint(n - last); last = n.toLong }
  }
  private def ascending(in: Decoder, from: Int): Array[Int] = {
    var last = from.toLong
    in.seq {
      val distance = in.varint()
      if (distance < 0 || distance > Int.MaxValue - last)
        in.fail(s"a distance from $last to a greater number", s"$distance")
      last += distance
      last.toInt
    }.toArray
  }

  private def encode(out: Encoder, time: RowTime): Encoder = {
    out.int(time.family)
    time match {
      case RowTime.InOrder(_) => out.boolean(true)
      case RowTime.InRow(_, isInKey, rowAt, columns, column, field, never) =>
        out
          .boolean(false)
          .boolean(isInKey)
          .int(rowAt)
          .int(columns)
          .int(column)
          .option(field)(f => { out.int(f); () })
          .option(never)(n => { out.long(n); () })
    }
  }

  private def decodeTime(in: Decoder): RowTime = {
    val family = in.int()
    if (in.boolean()) RowTime.InOrder(family)
    else
      RowTime.InRow(
        family,
        in.boolean(),
        in.int(),
        in.int(),
        in.int(),
        in.option(in.int()),
        in.option(in.long())
      )
  }

  /** Throws DamagedFileException. */
  def decode(in: Decoder): Question = {
    val kind = in.byte()
    val store = WireParts.store(in)
    val (source, target) = (in.int(), in.int())
    val step = StepId(in.string(), in.long(), in.int())
    val key = ReplicaKey.forStep(store, source, target, step)
    val name = WireParts.name(in)
    val keys = in.seq(in.int() -> in.long()).toMap
    kind match {
      case SubBins =>
        Question.SubBins(key, name, keys, in.seq(in.int() -> in.seq(in.int()).toArray))
      case Rest =>
        val (bin, from) = (in.int(), in.int())
        Question.Rest(key, name, keys, bin, from, ascending(in, from))
      case AllDue =>
        Question.AllDue(
          key,
          name,
          keys,
          in.seq(in.int()),
          in.int(),
          Due(decodeTime(in), in.long(), in.long())
        )
      case other => in.fail("a question of kind 1 to 3", s"$other")
    }
  }
}

/** Answers to them, as bytes, with a checksum: what is taken in is as good as a file's. */
private[spark] object AnswerBytes {
  private val Gone = 0
  private val NotYet = 1
  private val SubBins = 2
  private val Rest = 3
  private val AllDue = 4

  private[wire] def encode(out: Encoder, answer: Answer): Unit = {
    val body = new Encoder(BodyBytes)
    answer match {
      case Answer.Gone => body.byte(Gone)
      case Answer.NotYet => body.byte(NotYet)
      case Answer.SubBins(found) =>
        body.byte(SubBins).seq(found) { case (bin, some) =>
          body.int(bin).seq(some)(subBin(body, _)); ()
        }
      case Answer.Rest(some) => stretch(body.byte(Rest), some)
      case Answer.AllDue(found) =>
        body.byte(AllDue).seq(found) { due =>
          stretch(body.int(due.bin), due.stretch).long(due.nextTime); ()
        }
    }
    WireParts.checked(out, packed(body.toBytes))
    ()
  }

  /** Compressed, as all other bytes of state are that travel; what is small stays as it is. */
  private def packed(body: Array[Byte]): Array[Byte] = {
    val compression = if (body.length < CompressedFrom) Compression.None else Lz4
    val bytes = compression.compress(body, body.length)
    new Encoder(bytes.length + HeaderBytes)
      .byte(compression.id)
      .int(body.length)
      .blob(bytes)
      .toBytes
  }

  private def unpacked(bytes: Array[Byte]): Array[Byte] = {
    val in = new Decoder(Name, bytes)
    val compression = Lz4.All(Name, in.byte())
    val rawBytes = in.int()
    Compression.unpacked(compression, in.blob(), rawBytes, Name)
  }

  /** Throws DamagedFileException. */
  def decode(bytes: Array[Byte]): Answer = {
    val in = new Decoder(Name, unpacked(WireParts.checked(new Decoder(Name, bytes), Name)))
    in.byte() match {
      case Gone => Answer.Gone
      case NotYet => Answer.NotYet
      case SubBins => Answer.SubBins(in.seq(in.int() -> in.seq(subBin(in))))
      case Rest => Answer.Rest(stretch(in))
      case AllDue => Answer.AllDue(in.seq(DueSubBins(in.int(), stretch(in), in.long())))
      case other => in.fail("an answer of kind 0 to 4", s"$other")
    }
  }

  private def subBin(out: Encoder, subBin: SubBin): Unit = {
    out.int(subBin.hash).blob(subBin.records); ()
  }
  private def subBin(in: Decoder): SubBin = SubBin(in.int(), in.blob())

  private def stretch(out: Encoder, some: Stretch): Encoder =
    out.seq(some.subBins)(subBin(out, _)).option(some.next)(h => { out.int(h); () })
  private def stretch(in: Decoder): Stretch =
    Stretch(in.seq(subBin(in)), in.option(in.int()))

  private val Name = "an answer of another executor"
  private val BodyBytes = 1 << 12
  private val CompressedFrom = 1 << 10
  private val HeaderBytes = 16
}
