// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{StateName, StoreId}
import io.megaphone.log.{Due, RowTime}
import io.megaphone.plan.StepId
import io.megaphone.state.{DueSubBins, ReplicaKey, Stretch, SubBin}
import io.megaphone.testkit.BitFlips
import io.megaphone.transfer.{Answer, Question}

/** Questions about what a step on demand took, and their answers, as bytes. */
final class QuestionBytesSuite extends AnyFunSuite {
  private val key =
    ReplicaKey.forStep(StoreId(3, "left").in("run"), 1, 2, StepId("plan", 0, 7))
  private val name = StateName(1L << 40, "id")
  private val time =
    RowTime.InRow(513, isInKey = true, rowAt = 8, columns = 70, column = 65, field = Some(1))
  private val keys = Map(5 -> 1L, 1023 -> (1L << 40))
  private val questions = Seq(
    Question.SubBins(key, name, keys, Vector(5 -> Array(-3, 0, 9), 1023 -> Array.empty[Int])),
    Question.Rest(key, name, keys, 5, Int.MinValue, Array(Int.MinValue, -1, 0, Int.MaxValue)),
    Question.Rest(key, name, keys, 5, 7, Array.empty),
    Question.AllDue(key, name, keys, Vector(5, 1023), -7, Due(time, 1L << 50, -9)),
    Question.AllDue(key, name, keys, Vector(0), 0, Due(RowTime.InOrder(514), -1)),
    Question.AllDue(
      key,
      name,
      Map.empty,
      Vector.empty,
      0,
      Due(time.copy(isInKey = false, field = None, never = Some(-1)), Long.MinValue)
    )
  )
  private val subBins = Vector(SubBin(-3, Array[Byte](1, 2, 3)), SubBin(9, Array.emptyByteArray))
  private val answers = Seq(
    Answer.Gone,
    Answer.NotYet,
    Answer.SubBins(Vector(5 -> subBins, 7 -> Vector.empty)),
    Answer.Rest(Stretch(subBins, Some(-1))),
    Answer.Rest(Stretch(Vector.empty, None)),
    Answer.Rest(Stretch(Vector(SubBin(1, Array.fill(2000)(7.toByte))), None)), // compressed
    Answer.AllDue(
      Vector(
        DueSubBins(5, Stretch(subBins, None), 1L << 50),
        DueSubBins(9, Stretch(subBins.take(1), Some(-3)), Long.MaxValue)
      )
    )
  )

  private def asked(request: Array[Byte], answer: Answer = Answer.Gone): (Question, Answer) = {
    var question = Option.empty[Question]
    val bytes = PeerBytes.answer(request)(
      _ => fail("no block is asked for"),
      _ => fail("no file comes"),
      q => { question = Some(q); answer }
    )
    (question.get, AnswerBytes.decode(bytes))
  }

  private def shown(question: Question): String = question match {
    case Question.SubBins(k, n, keys, hashes) =>
      s"$k $n $keys ${hashes.map { case (bin, some) => bin -> some.toVector }}"
    case Question.Rest(k, n, keys, bin, from, here) => s"$k $n $keys $bin $from ${here.toVector}"
    case rest => rest.toString
  }
  private def shown(answer: Answer): String = {
    def all(some: Vector[SubBin]) = some.map(s => s.hash -> s.records.toVector)
    answer match {
      case Answer.SubBins(found) => found.map { case (bin, some) => bin -> all(some) }.toString
      case Answer.Rest(Stretch(some, next)) => s"${all(some)} $next"
      case Answer.AllDue(found) =>
        found
          .map(d => s"${d.bin} ${all(d.stretch.subBins)} ${d.stretch.next} ${d.nextTime}")
          .toString
      case other => other.toString
    }
  }

  test("What is asked arrives, and what is answered.") {
    for (question <- questions; answer <- answers) {
      val (heard, come) = asked(PeerBytes.ask(question), answer)
      assert(shown(heard) == shown(question) && shown(come) == shown(answer))
    }
  }

  test("A large answer is compressed.") {
    val large = Answer.Rest(Stretch(Vector(SubBin(1, new Array[Byte](100000))), None))
    val bytes = PeerBytes.answer(PeerBytes.ask(questions.head))(_ => None, _ => (), _ => large)
    assert(bytes.length < 2000 && shown(AnswerBytes.decode(bytes)) == shown(large))
  }

  test("A question with any damage is an error that says so.") {
    for (question <- questions; bytes = PeerBytes.ask(question)) {
      for (length <- bytes.indices) intercept[DamagedFileException](asked(bytes.take(length)))
      for (damaged <- BitFlips.of(bytes, 1 until bytes.length)) {
        val e = intercept[DamagedFileException](asked(damaged))
        assert(Seq("a request", "a question").map(_ + " of another executor").contains(e.file))
      }
    }
  }

  test("An answer with any damage is an error that says so.") {
    for (answer <- answers) {
      val bytes = PeerBytes.answer(PeerBytes.ask(questions.head))(_ => None, _ => (), _ => answer)
      for (length <- bytes.indices)
        intercept[DamagedFileException](AnswerBytes.decode(bytes.take(length)))
      for (damaged <- BitFlips.of(bytes))
        intercept[DamagedFileException](AnswerBytes.decode(damaged))
    }
  }
}
