// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.MissingBinException
import io.megaphone.format.{Chain, StateName}
import io.megaphone.log.BinLog
import io.megaphone.plan.Bins
import io.megaphone.testkit.Allocated

/** What a holding says of its bins: what is present, and what is not. */
class BinStateSuite extends AnyFunSuite {
  private val name = StateName(3, StateName.FixedId)

  /** A holding of four bins at `name`, of which 1 and 2 are present, with a key each. */
  private def twoOfFour: Holding = {
    val holding = new Holding(7, 4)
    for (bin <- Seq(1, 2)) {
      val log = new BinLog
      put(log, family = bin)
      log.settle()
      holding.put(bin, log, Chain.Empty)
    }
    holding.restart(name, Vector.empty)
    holding
  }

  private def put(log: BinLog, family: Int): Unit = {
    val key = s"key of $family".getBytes
    log.put(family, key, 0, key.length, Array[Byte](1), 0, 1)
  }

  private def present(holding: Holding): Seq[Int] =
    (0 until 4).filter(holding.stateOf(_).isPresent)

  test("an absent bin is an error for who wants its rows, and never an empty log") {
    val holding = twoOfFour
    val errors = Seq[Holding => Any](_.log(0), _.here(0), _.touch(0))
      .map(use => intercept[MissingBinException](use(holding)).getMessage)
    for (error <- errors) assert(error.startsWith("Worker 7 (at 3) should have bin 0"))
    assert(holding.stateOf(0) == BinState.Absent && holding.stateOf(0).here.isEmpty)
    assert(holding.touched.isEmpty)
  }

  test("a present bin has one log, for its rows and for what is done to it as a whole") {
    val holding = twoOfFour
    assert(present(holding) == Seq(1, 2) && holding.bins.toSeq == Seq(1, 2))
    for (bin <- Seq(1, 2)) {
      assert(holding.log(bin) eq holding.here(bin))
      assert(holding.stateOf(bin) == BinState.Local(holding.log(bin)) && holding.has(bin))
    }
  }

  test("keys are counted by bin and family, without those of bins that leave") {
    val holding = twoOfFour
    put(holding.log(2), family = 0)
    assert((0 until 4).map(holding.stateOf(_).keyCount) == Seq(0, 1, 2, 0))
    assert((0 until 4).map(holding.stateOf(_).keyCount(2)) == Seq(0, 0, 1, 0))
    assert(holding.keyCount == 3)
    holding.markLeaving(2)
    assert(holding.keyCount == 1)
  }

  test("who looks at a holding's bins looks at those alone that are present") {
    val bins = new HeldBins(Bins.Max)
    for (bin <- Seq(5, 60000)) bins.put(bin, new BinLog, Chain.Empty, None)
    var looks = 0
    bins.sum { _ => looks += 1; true }(_.keyCount)
    assert(looks == 2)
    val allocated = Allocated.bytesOf(bins.numbers.foreach(_ => looks += 1))
    assert(looks == 4 && allocated < Bins.Max, "each number has an object")
  }

  test("all bins that are wanted are given, or none, and only settled ones at the name wanted") {
    val holding = twoOfFour
    assert(holding.give(name, Seq(1, 3)).isEmpty)
    assert(holding.give(StateName(2, StateName.FixedId), Seq(1)).isEmpty)
    holding.touch(2)
    put(holding.log(2), family = 0)
    assert(holding.give(name, Seq(1, 2)).isEmpty && present(holding) == Seq(1, 2))
    val log = holding.log(1)
    val taken = holding.give(name, Seq(1)).get
    assert(taken.map(_.bin) == Seq(1) && (taken.head.log eq log))
    assert(present(holding) == Seq(2))
    holding.drop(2)
    assert(present(holding).isEmpty && holding.bins.isEmpty)
  }
}
