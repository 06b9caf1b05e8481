// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{StateName, WorkerId}
import io.megaphone.transfer.{Answer, Answering, Question}

/** What a source lends stays, as it was, until all of it has been brought. */
class LentBinsSuite extends AnyFunSuite with TakenBins {
  test("bins that were lent are given to nobody, and stay when their worker has dropped them") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bring(0, hashOf(1))
    val holding = source.holding(WorkerId(turn.key, 0)).get
    assert(holding.give(StateName(1, ""), Seq(0)).isEmpty)
    val zero = store.lease(source, 0, 9)
    store.open(source, zero, turn)
    store.commit(zero, turn)
    zero.holding.settle()
    assert(!zero.holding.has(0))
    fetcher.completeAll()
    assert(arrivals.binsFromCheckpoint == 0 && log.keyCount == 10)
    source.exports.keep(_ => false)
    val ask =
      Question.Rest(exportKey, StateName(1, ""), Map(0 -> 10L), 0, Int.MinValue, Array.empty)
    assert(new Answering(source)(ask) == Answer.Gone)
  }

  test("a source that the step leaves without a task stays until all of its bins are lent") {
    val moving = new Moving(keys = 10, inTwo = 100 until 110)
    import moving._
    def holdings = {
      source.keepRuns(_ => Some(1000), takenAt = _ => Some(1L))
      source.holdingsCount
    }
    source.exports.announce(exportKey, bins)
    assert(holdings == 1 && source.exports.count == 0)
    fetcher.bring(0, hashOf(1))
    assert(holdings == 0 && source.exports.count == 1)
    fetcher.completeAll()
    assert(arrivals.binsFromCheckpoint == 0 && !lease.holding.areIncomplete)
    source.exports.keep(_ => false)
    assert(source.isEmpty)
  }

  test("a source's task lends what was announced before it drops it, though nobody has asked yet") {
    val moving = new Moving(keys = 10)
    import moving._
    source.exports.announce(exportKey, bins)
    val zero = store.lease(source, 0, 9)
    new Opener(source, store.recovery, store.handOver, peers).open(zero, turn, sources)
    store.commit(zero, turn)
    zero.holding.settle()
    assert(!zero.holding.has(0) && asked.isEmpty)
    fetcher.bring(0, hashOf(1))
    assert(has(1) && isPartial && arrivals.binsFromCheckpoint == 0)
  }

  test("what was not announced is lent to who asks between its worker's opening and the drop") {
    val moving = new Moving(keys = 10)
    import moving._
    val zero = store.lease(source, 0, 9)
    new Opener(source, store.recovery, store.handOver, peers).open(zero, turn, sources)
    assert(source.exports.count == 0, "nobody has an offer of it")
    fetcher.bring(0, hashOf(1))
    assert(source.exports.count == 1 && zero.holding.isLeaving(0))
    store.commit(zero, turn)
    zero.holding.settle()
    assert(!zero.holding.has(0))
    fetcher.bring(0, hashOf(2))
    assert((1 to 3).map(has) == Seq(true, true, false) && arrivals.binsFromCheckpoint == 0)
  }

  test("what is lent no more comes from files, and so does what was dropped before it was lent") {
    for (isLent <- Seq(true, false)) {
      val moving = new Moving(keys = 10)
      import moving._
      if (isLent) fetcher.bring(0, hashOf(1))
      runZero(until = 1)
      source.holding(WorkerId(turn.key, 0)).get.settle()
      source.exports.keep(_ => false) // the driver's orders name the step no more
      fetcher.bring(0, hashOf(2))
      assert(!isPartial && arrivals.binsFromCheckpoint == 1)
      assert((0 until 10).map(i => list(log, keyOf(i))) == (0 until 10).map(i => Seq(i.toByte)))
      assert(asked.size == (if (isLent) 2 else 1), "it is not asked again")
    }
  }

  test("a source that went on elsewhere before the step was sealed is dropped") {
    val moving = new Moving(keys = 10)
    import moving._
    source.exports.announce(exportKey, bins)
    source.keepRuns(_ => Some(5), isDraining = true)
    assert(source.holdingsCount == 0, "it can never be lent: the step will take a later name")
  }

  test("what is lent counts in the memory budget once, and so does what is known of it") {
    val moving = new Moving(keys = 10)
    import moving._
    val holding = source.holding(WorkerId(turn.key, 0)).get
    holding.settle()
    val lent = holding.log(0)
    def heldBeside = { source.measure(); source.budget.heldBytes - holding.heapBytes }
    assert(heldBeside == 0)
    val draft = lent.draft(hash)
    source.exports.putDrafts(exportKey, Map(0 -> draft))
    draft.make()
    assert(draft.heapBytes > 10 * 8 && heldBeside == draft.heapBytes)
    fetcher.bring(0, hashOf(1))
    val surveyed = heldBeside
    assert(surveyed > draft.heapBytes, "the export has a survey of its own")
    val zero = store.lease(source, 0, 9)
    store.open(source, zero, turn)
    store.commit(zero, turn)
    zero.holding.settle()
    assert((zero.holding eq holding) && !holding.has(0))
    assert(heldBeside == surveyed + lent.heapBytes)
    source.exports.keep(_ => false)
    assert(heldBeside == 0)
  }

  test("a log that was lent stays in memory as it is while others read it") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bring(0, hashOf(1))
    val holding = source.holding(WorkerId(turn.key, 0)).get
    assert(!holding.isLeaving(0), "its worker's task has not come yet")
    val lent = holding.log(0)
    holding.spill(Long.MaxValue)
    assert(lent.bytesOnDisk == 0 && holding.bytesOnDisk == 0)
  }
}
