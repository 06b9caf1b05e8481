// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.Encoder
import io.megaphone.log.{Due, RowTime}
import io.megaphone.state.Stretch
import io.megaphone.transfer.{Answer, Question}

/** What a scan brings of a bin that is incomplete: the keys whose rows are due by their time. */
class FetcherDueSuite extends AnyFunSuite with TakenBins {
  // A row of one column, as Spark has it in memory.
  private def rowOf(time: Option[Long]): Array[Byte] =
    new Encoder(16).long(if (time.isEmpty) 1 else 0).long(time.getOrElse(0L)).toBytes
  private val timeInValue =
    RowTime.InRow(0, isInKey = false, rowAt = 0, columns = 1, column = 0, never = Some(-1L))
  private def until(time: Long) = Due(timeInValue, time)

  test("rows that are due come, the others stay, and are not asked for before one is due") {
    val moving = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    import moving._
    fetcher.bringDue(until(25))
    assert((0 until 10).filter(has) == Seq(0, 1, 2) && isPartial && asked.size == 1)
    fetcher.bringDue(until(29))
    assert(asked.size == 1, "nothing is due before 30")
    var sent = 0
    heard = {
      case a: Answer.AllDue => sent += a.found.map(_.stretch.subBins.size).sum; a
      case other => other
    }
    fetcher.bringDue(until(30))
    assert((0 until 10).filter(has) == Seq(0, 1, 2, 3) && asked.size == 2)
    assert(sent == 1, "what came before is not sent again")
    fetcher.bringDue(until(1000))
    assert(!isPartial && (0 until 10).forall(has) && arrivals.binsFromCheckpoint == 0)
    fetcher.bringDue(until(2000))
    assert(asked.size == 3)
  }

  test("many rows that are due come in several answers") {
    val moving = new Moving(keys = 10, i => rowOf(Some(10L * i)), dueBytes = 1)
    import moving._
    fetcher.bringDue(until(55))
    assert((0 until 10).filter(has) == (0 to 5) && asked.size == 6)
    fetcher.bringDue(until(59))
    assert(asked.size == 6)
  }

  test("keys are due that an ordered family has first") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bringDue(Due(RowTime.InOrder(0), 4))
    assert((0 until 10).filter(has) == (0 to 4) && asked.size == 1)
    fetcher.bringDue(Due(RowTime.InOrder(0), 4))
    assert(asked.size == 1)
  }

  test("keys come whose rows in another store of the task are due, also once that has all") {
    val keys = new Moving(keys = 10)
    val values = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    keys.fetcher.bringDue(until(25), values.fetcher)
    assert((0 until 10).filter(keys.has) == Seq(0, 1, 2))
    assert((0 until 10).filter(values.has) == Seq(0, 1, 2), "they came with the answer")
    assert(values.asked.size == 1 && keys.asked.size == 1, "all keys in one question")
    keys.fetcher.bringDue(until(29), values.fetcher)
    assert(values.asked.size == 1)
    values.fetcher.completeAll()
    keys.fetcher.bringDue(until(30), values.fetcher)
    assert((0 until 10).filter(keys.has) == Seq(0, 1, 2, 3), "its source still tells")
    values.heard = _ => Answer.Gone
    keys.fetcher.bringDue(until(40), values.fetcher)
    assert(!keys.isPartial && keys.arrivals.binsFromCheckpoint == 0)
  }

  test("keys of several bins that another store calls due come in one question") {
    val inTwo = 100 until 105
    val keys = new Moving(keys = 10, inTwo = inTwo)
    val values = new Moving(keys = 10, i => rowOf(Some(10L * i)), inTwo = inTwo)
    keys.fetcher.bringDue(until(1010), values.fetcher)
    assert(((0 until 10) ++ inTwo).filter(keys.has) == (0 until 10) ++ Seq(100, 101))
    assert(values.asked.size == 1 && keys.asked.size == 1)
    values.fetcher.completeAll()
    keys.fetcher.bringDue(until(1030), values.fetcher)
    assert(((0 until 10) ++ inTwo).filter(keys.has) == (0 until 10) ++ Seq(100, 101, 102, 103))
    assert(keys.asked.size == 2 && keys.asked.forall(_.isInstanceOf[Question.SubBins]))
  }

  test("if nobody has said which keys are due, all come") {
    val keys = new Moving(keys = 10)
    val values = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    values.fetcher.completeAll()
    keys.fetcher.bringDue(until(30), values.fetcher)
    assert(!keys.isPartial && keys.arrivals.binsFromCheckpoint == 0)
  }

  test("what the other store has of the keys that are here comes in one question") {
    val keys = new Moving(keys = 10)
    val values = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    keys.fetcher.completeAll()
    keys.fetcher.bringDue(until(-1), values.fetcher, Some(values.fetcher))
    assert(values.asked.isEmpty)
    values.fetcher.bring(0, hashOf(0))
    assert((0 until 10).forall(values.has) && values.asked.size == 1)
  }

  test("what the other store has of the keys that are due comes in one question") {
    val keys = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    val values = new Moving(keys = 10)
    keys.fetcher.bringDue(until(45), opened = Some(values.fetcher))
    keys.fetcher.bring(0, hashOf(9)) // it is not due
    keys.fetcher.bringDue(until(45), opened = Some(values.fetcher))
    values.fetcher.bring(0, hashOf(0))
    assert((0 until 10).filter(values.has) == (0 to 4) && values.asked.size == 1)
  }

  test("an attempt that ends between two stores leaves no key behind for the next one") {
    val keys = new Moving(keys = 10)
    val values = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    keys.heard = _ => throw new IllegalStateException("killed")
    intercept[IllegalStateException](keys.fetcher.bringDue(until(25), values.fetcher))
    assert(values.has(2) && !keys.has(2))
    keys.heard = identity
    keys.fetcher.bringDue(until(25), values.fetcher)
    assert((0 until 10).filter(keys.has) == Seq(0, 1, 2))
  }

  test("where an answer about one bin stopped says nothing of another") {
    val last = Seq(0, 1).maxBy(hashOf)
    val inTwo = (100 until 200).filter(hashOf(_) < hashOf(last)).take(3)
    val moving = new Moving(keys = 2, i => rowOf(Some(i.toLong)), dueBytes = 1, inTwo)
    import moving._
    fetcher.bring(0, hashOf(last)) // the answer stops there, and then the bin is complete
    fetcher.bringDue(until(1000))
    assert((Seq(0, 1) ++ inTwo).forall(has) && arrivals.binsFromCheckpoint == 0)
  }

  test("an answer looks at some bins only, and the next goes on") {
    val inTwo = 100 until 110
    val moving = new Moving(keys = 10, i => rowOf(Some(i.toLong)), inTwo = inTwo, looks = 1)
    import moving._
    fetcher.bringDue(until(104))
    assert(asked.size == 2 && ((0 until 10) ++ inTwo.take(5)).forall(has) && !has(105))
  }

  test("a source that looks at many keys for few that are due is waited for") {
    val moving = new Moving(keys = 10, i => rowOf(Some(10L * i)), dueBytes = 1)
    import moving._
    answerMs = 9000
    fetcher.bringDue(until(55))
    assert((0 until 10).filter(has) == (0 to 5) && asked.size == 6)
    assert(isPartial && arrivals.binsFromCheckpoint == 0)
  }

  test("a row without a time is never due, and one that is cut always is") {
    val moving = new Moving(
      keys = 4,
      {
        case 0 => rowOf(None)
        case 1 => rowOf(Some(-1))
        case 2 => rowOf(Some(5)).dropRight(8)
        case _ => rowOf(Some(5))
      }
    )
    import moving._
    fetcher.bringDue(until(4))
    assert((0 until 4).filter(has) == Seq(2))
    fetcher.bringDue(until(Long.MaxValue - 1))
    assert((0 until 4).filter(has) == Seq(2, 3) && isPartial)
  }

  for (
    (what, change) <- Seq[(String, Answer.AllDue => Answer)](
      "is about no bin" -> (_ => Answer.AllDue(Vector.empty)),
      "is about another bin" -> (a => Answer.AllDue(a.found.map(_.copy(bin = 1)))),
      "says that more is due and brings nothing" ->
        (a => Answer.AllDue(a.found.map(_.copy(stretch = Stretch(Vector.empty, Some(0)))))),
      "has not looked for what was asked" ->
        (a => Answer.AllDue(a.found.map(_.copy(nextTime = 0)))),
      "is to another question" -> (_ => Answer.SubBins(Vector.empty))
    )
  ) test(s"an answer that $what has the bin read from the files") {
    val moving = new Moving(keys = 10, i => rowOf(Some(10L * i)))
    import moving._
    heard = { case a: Answer.AllDue => change(a); case other => other }
    fetcher.bringDue(until(25))
    assert(!isPartial && (0 until 10).forall(has) && arrivals.binsFromCheckpoint == 1)
  }

  test("each answer has the whole deadline, and after one that did not come nothing is asked") {
    val moving = new Moving(keys = 10)
    import moving._
    answerMs = 9000
    answerBytes = 4 << 20
    (0 until 5).foreach(i => fetcher.bring(0, hashOf(i)))
    assert(asked.size == 5 && isPartial && arrivals.binsFromCheckpoint == 0)
    answerMs = 10000
    fetcher.bring(0, hashOf(5))
    assert(asked.size == 6 && !isPartial && arrivals.binsFromCheckpoint == 1)

    val inTwo = 100 until 105
    val keys = new Moving(keys = 10, inTwo = inTwo)
    val values = new Moving(keys = 10, i => rowOf(Some(10L * i)), inTwo = inTwo)
    keys.fetcher.bringDue(until(25), values.fetcher)
    values.fetcher.completeAll()
    val before = values.asked.size
    values.answerMs = 10000
    keys.fetcher.bringDue(until(2000), values.fetcher)
    assert(values.asked.size == before + 1, "it was to be asked about each bin")
    assert(((0 until 10) ++ inTwo).forall(keys.has) && keys.arrivals.binsFromCheckpoint == 0)
  }
}
