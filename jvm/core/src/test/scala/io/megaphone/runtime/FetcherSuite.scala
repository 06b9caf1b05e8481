// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.{DamagedFileException, DetachedLeaseException, MissingFileException}
import io.megaphone.format.{FileName, StateName, WorkerId}
import io.megaphone.log.{Due, RowTime}
import io.megaphone.log.memory.DamagedRecordsException
import io.megaphone.plan.Bins
import io.megaphone.state.{LoadedBin, Registry, Remote, Stretch, SubBin}
import io.megaphone.transfer.{Answer, BlockKind, BlockName, Question}

/** What a worker brings of a bin that a step on demand has left elsewhere. */
class FetcherSuite extends AnyFunSuite with TakenBins {
  test("a bin comes without its records, and a key with all that are wanted, in one question") {
    val moving = new Moving(keys = 100)
    import moving._
    assert(isPartial && state.keyCount == 100 && log.keyCount == 0)
    assert(arrivals.binsIn == 1 && arrivals.binsFromPeer == 0)
    fetcher.want(0, hashOf(1))
    fetcher.want(0, hashOf(2))
    fetcher.bring(0, hashOf(0))
    assert(asked.map(_.asInstanceOf[Question.SubBins].hashes.map(_._2.length)) == Seq(Seq(3)))
    assert((0 to 3).map(has) == Seq(true, true, true, false))
    assert(state.keyCount == 100 && arrivals.subBins == 3)
    fetcher.bring(0, hashOf(1))
    assert(asked.size == 1, "it is here")
  }

  test("what is wanted of several sources is asked for at once") {
    val inTwo = 100 until 105
    val moving = new Moving(keys = 10, inTwo = inTwo, areApart = true)
    import moving._
    for (i <- Seq(1, 2)) fetcher.want(0, hashOf(i))
    for (i <- Seq(100, 101)) fetcher.want(2, hashOf(i))
    fetcher.bring(0, hashOf(0))
    assert(asked.size == 2 && openMost == 2 && openNow == 0)
    assert(((0 until 10) ++ inTwo).filter(has) == Seq(0, 1, 2, 100, 101))
    fetcher.bring(2, hashOf(100))
    assert(asked.size == 2, "it is here")
  }

  test("what an answer has no room for is asked for again, and nothing else") {
    val moving = new Moving(keys = 10, inTwo = 100 until 105, subBinBytes = 1)
    import moving._
    for (i <- Seq(1, 2)) fetcher.want(0, hashOf(i))
    for (i <- Seq(100, 101)) fetcher.want(2, hashOf(i))
    fetcher.bring(0, hashOf(0))
    val sizes = asked.map(_.asInstanceOf[Question.SubBins].size)
    assert(sizes == Seq(5, 4, 3, 2, 1), "each answer has one")
    assert(((0 until 10) ++ (100 until 105)).filter(has) == Seq(0, 1, 2, 100, 101))
    assert(arrivals.subBins == 5 && arrivals.binsFromCheckpoint == 0)
  }

  test("an answer that has nothing of what was asked for is none: the files are read") {
    val moving = new Moving(keys = 10)
    import moving._
    heard = {
      case Answer.SubBins(_) => Answer.SubBins(Vector.empty)
      case answer => answer
    }
    fetcher.want(0, hashOf(1))
    fetcher.bring(0, hashOf(0))
    assert(asked.size == 1 && !isPartial && arrivals.binsFromCheckpoint == 1)
  }

  test("a source that does not answer costs others nothing that is asked for with it") {
    val moving = new Moving(keys = 10, inTwo = 100 until 105, areApart = true)
    import moving._
    heard = {
      case Answer.SubBins(found) if found.exists(_._1 == 2) => Answer.Gone
      case answer => answer
    }
    fetcher.want(2, hashOf(100))
    fetcher.bring(0, hashOf(0))
    assert(has(0) && !has(1) && isPartial, "it has answered")
    assert((100 until 105).forall(has) && arrivals.binsFromCheckpoint == 1)
  }

  test("keys become known while the batch's rows come") {
    val moving = new Moving(keys = 10)
    import moving._
    val wanted = new Wanted
    fetcher.watch(wanted)
    Seq(4, 5).foreach(i => wanted.add(hashOf(i)))
    fetcher.bring(0, hashOf(4))
    Seq(5, 6).foreach(i => wanted.add(hashOf(i)))
    assert(has(5) && !has(6))
    fetcher.bring(0, hashOf(7))
    assert(has(6) && asked.size == 2)
  }

  test("of a bin with more keys than can be noted all is brought, some at a time") {
    val inTwo = 100 until 105
    val moving = new Moving(keys = 10, inTwo = inTwo)
    import moving._
    val wanted = new Wanted(max = 3)
    fetcher.watch(wanted)
    for (i <- Seq(1, 1, 2, 100, 3, 1)) wanted.add(hashOf(i))
    assert(wanted.since(0).toSeq == Seq(1, 2, 100).map(hashOf))
    fetcher.bring(0, hashOf(1))
    assert(((0 until 10) ++ inTwo).filter(has) == Seq(1, 2, 100) && asked.size == 1)
    fetcher.bring(0, hashOf(3))
    assert(!isPartial && (0 until 10).forall(has) && arrivals.binsFromCheckpoint == 0)
    assert(asked.tail.forall(_.isInstanceOf[Question.Rest]) && !has(101))
  }

  private val ofTwo = SubBin(hashOf(100), Array.emptyByteArray)
  private def withOther(answer: Answer): Answer = {
    def added(some: Stretch) = some.copy(subBins = some.subBins :+ ofTwo)
    answer match {
      case Answer.SubBins(found) => Answer.SubBins(found.map(f => f._1 -> (f._2 :+ ofTwo)))
      case Answer.Rest(some) => Answer.Rest(added(some))
      case Answer.AllDue(found) => Answer.AllDue(found.map(d => d.copy(stretch = added(d.stretch))))
      case other => other
    }
  }
  private def withOtherBin(answer: Answer): Answer = answer match {
    case Answer.SubBins(found) => Answer.SubBins(found :+ (2 -> Vector(ofTwo)))
    case other => other
  }
  for (
    (what, ask, change) <- Seq[(String, Fetcher => Unit, Answer => Answer)](
      ("some keys", _.bring(0, hashOf(1)), withOther),
      (
        "some keys, and others of a bin that nobody asked for,",
        _.bring(0, hashOf(1)),
        withOtherBin
      ),
      ("the rest", _.completeAll(), withOther),
      ("what is due", _.bringDue(Due(RowTime.InOrder(0), 4)), withOther)
    )
  ) test(s"an answer about $what with a sub-bin of another bin is none: the files are read") {
    val moving = new Moving(keys = 10)
    import moving._
    heard = change
    ask(fetcher)
    assert(asked.size == 1 && !isPartial && arrivals.binsFromCheckpoint == 1)
    assert((0 until 10).forall(has) && arrivals.subBins == 0)
  }

  test("a key that the bin never had is asked for once, and one that was removed stays so") {
    val moving = new Moving(keys = 10)
    import moving._
    val absent = hashOf(77)
    fetcher.bring(0, absent)
    fetcher.bring(0, absent)
    assert(asked.size == 1 && log.keyCount == 0)
    fetcher.bring(0, hashOf(3))
    lease.holding.touch(0)
    log.remove(0, keyOf(3), 0, keyOf(3).length)
    store.commit(lease, turn)
    lease.holding.settle()
    fetcher.complete(Seq(0))
    assert(!isPartial && (0 until 10).filter(has) == (0 until 10).filter(_ != 3))
  }

  test("the rest comes some sub-bins at a time, and what is here is left as it is") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bring(0, hashOf(3))
    lease.holding.touch(0)
    log.put(0, keyOf(3), 0, keyOf(3).length, Array[Byte](77), 0, 1)
    fetcher.completeAll()
    assert(asked.count(_.isInstanceOf[Question.Rest]) == 9, "what is here is not sent again")
    assert(!isPartial && !lease.holding.areIncomplete && arrivals.binsFromPeer == 1)
    assert(list(log, keyOf(3)) == Seq(77) && list(log, keyOf(4)) == Seq(4))
    lease.holding.abort()
    assert(list(log, keyOf(3)) == Seq(3) && log.keyCount == 10)
  }

  test("all of several bins is asked for at the same time") {
    val inTwo = 100 until 105
    val moving = new Moving(keys = 10, inTwo = inTwo)
    import moving._
    fetcher.completeAll()
    assert(openMost == 2 && openNow == 0, "each answer has one key")
    assert(((0 until 10) ++ inTwo).forall(has) && !lease.holding.areIncomplete)
    assert(asked.size == 15 && arrivals.binsFromPeer == 2 && arrivals.binsFromCheckpoint == 0)
  }

  test("a source that fails while it is asked for all of several bins is waited for once") {
    val inTwo = 100 until 105
    val moving = new Moving(keys = 10, inTwo = inTwo)
    import moving._
    heard = answer => if (asked.size > 3) Answer.Gone else answer
    fetcher.completeAll()
    assert(asked.size == 5 && openNow == 1, "the last one is not waited for")
    assert(((0 until 10) ++ inTwo).forall(has) && arrivals.binsFromCheckpoint == 2)
    assert((0 until 10).map(i => list(log, keyOf(i))) == (0 until 10).map(i => Seq(i.toByte)))
  }

  test("a record that is of another hash than it was surveyed as is not sent") {
    val moving = new Moving(keys = 10)
    import moving._
    var shift = 0
    source.useKeyReader(turn.key, () => (f, b, from, n) => hash.hashOf(f, b, from, n) + shift)
    fetcher.bring(0, hashOf(1))
    shift = 4 // bins are as before
    intercept[IllegalStateException](fetcher.bring(0, hashOf(2)))
    assert(has(1) && !has(2))
  }

  test("what a source does not answer comes from the files, whole, and it is not asked again") {
    for (before <- Seq(0, 2)) {
      val moving = new Moving(keys = 10)
      import moving._
      (0 until before).foreach(i => fetcher.bring(0, hashOf(i)))
      heard = _ => Answer.Gone
      fetcher.bring(0, hashOf(5))
      assert(!isPartial && log.keyCount == 10 && arrivals.binsFromCheckpoint == 1)
      assert((0 until 10).map(i => list(log, keyOf(i))) == (0 until 10).map(i => Seq(i.toByte)))
      assert(asked.size == before + 1)
    }
  }

  test("bins of which there is no offer, or a damaged one, come from files in the step's batch") {
    def isDamaged(block: BlockName) = Option.when(block.kind == BlockKind.Offer)(Array[Byte](1, 2))
    for (others <- Seq(NoPeers, new SomePeers(isDamaged))) {
      val moving = new Moving(keys = 10)
      import moving._
      val registry = new Registry
      val task = store.lease(registry, 1, 9)
      val opened =
        new Opener(registry, store.recovery, store.handOver, others).open(task, turn, sources)
      assert(!task.holding.areIncomplete && opened.binsFromCheckpoint == 1)
      val log = task.holding.log(0)
      assert((0 until 10).map(i => list(log, keyOf(i))) == (0 until 10).map(i => Seq(i.toByte)))
    }
  }

  for (
    isOfOne <- Seq(false, true);
    (what, use) <- Seq[(String, Fetcher => Unit)](
      "a key is needed" -> (_.bring(0, hashOf(5))),
      "rows are due" -> (_.bringDue(Due(RowTime.InOrder(0), 4))),
      "all is needed" -> (_.completeAll())
    )
  ) {
    val file = if (isOfOne) "a file that has nothing of the bin" else "no file"
    test(s"what the source has lost and $file has is an error, and never an absent key: $what") {
      val moving = new Moving(keys = 10)
      import moving._
      heard = _ => Answer.Gone
      lose(isOfOne)
      if (isOfOne) {
        val told = intercept[DamagedFileException](use(fetcher))
        assert(told.condition == "DAMAGED_FILE" && told.bin.contains(0))
        assert(told.file.contains(s"$takenFrom"))
      } else {
        val told = intercept[MissingFileException](use(fetcher))
        assert(told.condition == "MISSING_FILE" && told.file == s"$takenFrom")
      }
      assert(isPartial && !(0 until 10).exists(has), "what it should have had is still lacking")
    }
  }

  test("a source whose answers take long is waited for by how much they bring") {
    for ((bytes, questions) <- Seq(100L -> 2, (4L << 20) -> 10)) {
      val moving = new Moving(keys = 10)
      import moving._
      answerMs = 9000
      answerBytes = bytes
      fetcher.completeAll()
      assert(asked.size == questions && !isPartial)
      assert((0 until 10).map(i => list(log, keyOf(i))) == (0 until 10).map(i => Seq(i.toByte)))
      assert(arrivals.binsFromCheckpoint == (if (questions < 10) 1 else 0))
    }
  }

  for (
    off <- Seq(-1, 1);
    (what, use) <- Seq[(String, Moving => Unit)](
      "a key is needed" -> (m => m.fetcher.bring(0, hashOf(5))),
      "a key of another bin is needed" -> (m => m.fetcher.bring(2, hashOf(102))),
      "rows are due" -> (m => m.fetcher.bringDue(Due(RowTime.InOrder(0), 4))),
      "all is needed" -> (_.fetcher.completeAll()),
      "the rest is brought" -> { m =>
        m.store.commit(m.lease, m.turn)
        m.lease.end()
        restsOf(m, m.peers, settled = 2).bringAll(m.turn.key.run)
        ()
      }
    )
  ) test(s"a number of keys that is wrong by $off is found before the bin is used: $what") {
    val moving = new Moving(keys = 10, inTwo = 100 until 105)
    import moving._
    val was = state.elsewhere.get
    val wrong = new Remote(was.key, was.name, was.chain, was.at, was.keys + off)
    lease.holding.put(LoadedBin(0, log, was.chain, Some(wrong)))
    intercept[DamagedFileException](use(moving))
    assert(isPartial && !((0 until 10) ++ (100 until 105)).exists(has))
  }

  test("an attempt to which a wrong number of keys was told leaves nothing for the next one") {
    val moving = new Moving(keys = 10)
    import moving._
    val was = state.elsewhere.get
    val wrong = new Remote(was.key, was.name, was.chain, was.at, was.keys + 1)
    lease.holding.put(LoadedBin(0, log, was.chain, Some(wrong)))
    intercept[DamagedFileException](fetcher.bring(0, hashOf(5)))
    intercept[DetachedLeaseException](lease.check())
    lease.end()
    val again = store.lease(target, 1, 4)
    val opened = opener.open(again, turn, sources)
    opener.fetcher(again, turn.key, opened).bring(0, hashOf(5))
    assert(again.holding.incomplete.map(_._2.keys) == Seq(10))
    assert(list(again.holding.log(0), keyOf(5)) == Seq(5))
  }

  test("a source that has not come to the name yet is asked again") {
    val moving = new Moving(keys = 3)
    import moving._
    var refused = 2
    heard = answer =>
      if (refused > 0) { refused -= 1; Answer.NotYet }
      else answer
    fetcher.bring(0, hashOf(1))
    assert(has(1) && asked.size == 3)
  }

  test("after an answer that cannot be the bin's nobody uses what was taken in") {
    val moving = new Moving(keys = 3)
    import moving._
    fetcher.bring(0, hashOf(0))
    heard = {
      case Answer.SubBins(Seq((bin, Seq(SubBin(hash, _))))) =>
        val wrong = store.recovery
          .load(FileName(0, StateName(1, "")), Seq(0), before.contentHash)
          .bins(0)
          .log
          .image() // with the key that is here
        Answer.SubBins(Vector(bin -> Vector(SubBin(hash, wrong))))
      case other => other
    }
    intercept[DamagedRecordsException](fetcher.bring(0, hashOf(1)))
    intercept[DetachedLeaseException](lease.check())
    assert(target.holding(WorkerId(turn.key, 1)).exists(_.bins.isEmpty))
  }

  test("an incomplete bin gets no image, and its chain and count are those of the whole bin") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bring(0, hashOf(3))
    put(lease.holding, 0, keyOf(3), Array[Byte](77))
    put(lease.holding, 0, "new".getBytes, Array[Byte](78))
    val zero = store.lease(source, 0, 9)
    store.open(source, zero, turn)
    store.commit(zero, turn) // its file names the table, too
    val footer = store.commit(lease, turn, isWhole = true)
    assert(footer.frameOf(0).isImage == false && footer.keyCounts(0) == 11)
    val again = store.recovery.load(footer.file, Seq(0), after.contentHash).bins(0).log
    assert(
      again.keyCount == 11 && list(again, keyOf(3)) == Seq(77) && list(again, keyOf(4)) == Seq(4)
    )
  }

  test("a bin that has all come gets no image either, as long as the plan calls it incomplete") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.completeAll()
    assert(!lease.holding.areIncomplete, "another attempt may have brought less")
    put(lease.holding, 0, keyOf(3), Array[Byte](77))
    val footer = store.commit(lease, turn, isWhole = true)
    assert(!footer.frameOf(0).isImage && footer.keyCounts(0) == 10)
  }

  test("a worker that ran elsewhere for a batch reads the bins that are incomplete, no others") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bring(0, hashOf(5))
    end()
    runZero(until = 2)
    val next = store.turn(2, after, after)
    val elsewhere = new Registry
    val other = store.lease(elsewhere, 1, 9)
    store.open(elsewhere, other, next)
    put(other.holding, 0, keyOf(3), Array[Byte](77))
    put(other.holding, 1, 78)
    store.commit(other, next)
    val (opened, _) = runBatch(3) { (task, _) =>
      assert((task.holding eq lease.holding) && !task.holding.areIncomplete)
      assert(log.keyCount == 10 && list(log, keyOf(3)) == Seq(77) && list(log, keyOf(5)) == Seq(5))
      assert(get(task.holding.log(1)).contains(78.toByte))
    }
    assert(!opened.isRecovered && opened.binsFromCheckpoint == 1)
  }

  test("a bin that the plan calls complete is complete once the store is open") {
    val moving = new Moving(keys = 10)
    import moving._
    store.commit(lease, turn)
    lease.end()
    val next = store.turn(2, after, after)
    val again = store.lease(target, 1, 4)
    new Opener(target, store.recovery, store.handOver, peers, 60000)
      .open(again, next, Sources.None)
    assert(!again.holding.areIncomplete && again.holding.log(0).keyCount == 10)
  }

  test("a bin that comes from the files in a later batch is told, too") {
    val moving = new Moving(keys = 10)
    import moving._
    store.commit(lease, turn)
    lease.end()
    val next = store.turn(2, after, after).copy(incomplete = Set(0))
    val again = store.lease(target, 1, 4)
    val opener = new Opener(target, store.recovery, store.handOver, peers, 60000)
    val opened = opener.open(again, next, Sources.None)
    heard = _ => Answer.Gone
    opener.fetcher(again, next.key, opened).bring(0, hashOf(5))
    assert(opened.isNews && opened.binsFromCheckpoint == 1 && opened.binsIn == 0)
  }

  test("bins whose keys lead elsewhere are not given in sub-bins") {
    val moving = new Moving(keys = 10)
    import moving._
    source.useKeyReader(turn.key, () => (_, _, _, _) => Bins.of(1, 4))
    fetcher.bring(0, hashOf(1))
    assert(arrivals.binsFromCheckpoint == 1 && log.keyCount == 10)
  }
}
