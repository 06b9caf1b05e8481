// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, Recovery, StateFiles}
import io.megaphone.errors.MegaphoneError
import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, FileName, FileSource, StateName, WorkerId
}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.{HeapBudget, HeapBudgetSuite, SpillFiles}
import io.megaphone.state.{Attempt, Lease, LoadedBin, Remote, SubBin}
import io.megaphone.transfer.{Answer, Heard, Question}

/** The rest of incomplete bins comes between tasks, and while they run. */
class RestWorkSuite extends AnyFunSuite with TakenBins {
  test("the rest of one step is not taken for that of a later one of the same bin") {
    val moving = new Moving(keys = 10)
    import moving._
    store.commit(lease, turn)
    lease.end()
    val run = turn.key.run
    def old(subBin: SubBin) = {
      val (records, key) = (new BinLog, keyOf((0 until 10).find(hashOf(_) == subBin.hash).get))
      records.put(0, key, 0, key.length, Array[Byte](66), 0, 1)
      SubBin(subBin.hash, records.image())
    }
    var isReplaced = false
    val late = new SomePeers(_ => None) {
      override def ask(question: Question, at: ExecutorAddress, deadlineMs: Long): Heard = {
        val answer = peers.ask(question, at, deadlineMs)
        if (!isReplaced) { // the bin has left and come back meanwhile, with other records elsewhere
          isReplaced = true
          val was = lease.holding.incomplete.head._2
          val later = new Remote(was.key, StateName(7, ""), was.chain, None, 10)
          lease.holding.put(LoadedBin(0, new BinLog, was.chain, Some(later)))
          answer.copy(answer.answer match {
            case Answer.Rest(stretch) => Answer.Rest(stretch.copy(stretch.subBins.map(old)))
            case other => other
          })
        } else answer
      }
    }
    restsOf(moving, late, settled = 2).bringAll(run)
    // What came of the older step is not here: all has been read at the later one's chain.
    assert(isReplaced && asked.count(_.isInstanceOf[Question.Rest]) == 1)
    assert(!lease.holding.areIncomplete && log.keyCount == 10)
    for (i <- 0 until 10) assert(list(log, keyOf(i)) == Seq(i))
  }

  test("what tasks have brought is left out of the rest, in a batch and in the background") {
    for (isInBatch <- Seq(true, false)) {
      val moving = new Moving(keys = 20)
      import moving._
      var sent = Vector.empty[Int]
      heard = {
        case a: Answer.Rest => sent ++= a.stretch.subBins.map(_.hash); a
        case other => other
      }
      val brought = Seq(0, 3, 4, 11, 19)
      brought.foreach(i => fetcher.bring(0, hashOf(i)))
      if (isInBatch) fetcher.completeAll()
      store.commit(lease, turn)
      lease.end()
      restsOf(moving, peers, settled = 2).bringAll(turn.key.run)
      assert(sent == (0 until 20).filterNot(brought.contains).map(hashOf).sorted)
      assert(!lease.holding.areIncomplete && (0 until 20).forall(has))
      assert(arrivals.binsFromCheckpoint == 0)
    }
  }

  test("the rest of the bin that tasks have asked for most comes first") {
    val moving = new Moving(keys = 5, inTwo = 100 until 105)
    import moving._
    fetcher.bring(2, hashOf(102))
    store.commit(lease, turn)
    lease.end()
    restsOf(moving, peers, settled = 2).bringAll(turn.key.run)
    assert(asked.collect { case rest: Question.Rest => rest.bin }.distinct == Seq(2, 0))
    assert(!lease.holding.areIncomplete)
  }

  test("while memory is short the rest goes to disk, and what finds no room there waits") {
    HeapBudgetSuite.withFolder { root =>
      val folder = root.resolve("disk") // it is not there yet
      val budget = new HeapBudget(4 << 20, new SpillFiles(Seq(folder)))
      val moving = new Moving(keys = 100, _ => new Array[Byte](64 << 10), budget = budget)
      import moving._
      end()
      var round = 0L
      val rests = restsOf(moving, peers, settled = 2, round = () => round)
      val run = turn.key.run
      assert(!rests.bringAll(run) && rests.heldUp.map(_._1) == Vector(WorkerId(turn.key, 1)))
      assert(rests.heldUp.forall(_._2.startsWith("has no room")))
      val (come, before) = (log.keyCount, asked.size)
      assert(come > 50 && come < 64 && before == come + 1, "the last one waits")
      assert(rests.dueRuns.isEmpty, "it rests")
      round += 1
      assert(!rests.bringAll(run) && log.keyCount == come && asked.size == before)
      assert(target.holding(WorkerId(turn.key, 1)).exists(_ eq lease.holding))
      Files.createDirectory(folder)
      round += 2
      assert(rests.bringAll(run) && rests.heldUp.isEmpty && asked.size == 100)
      assert((0 until 100).forall(has) && !isPartial && lease.holding.bytesOnDisk > 0)
      target.measure()
      assert(budget.heldBytes < budget.budgetBytes * 0.95, "no batch has come")
    }
  }

  test("why the rest cannot be brought is told from the fifth failure in a row on") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    var round = 0L
    // The source says nothing, so the files serve, and the connection to them is lost.
    val rests = restsOf(moving, NoPeers, settled = 2, round = () => round)
    val run = turn.key.run
    val told = for (_ <- 1 to 6) yield {
      round += 1000
      store.readsLeft = 1
      intercept[IOException](rests.bringAll(run))
      rests.heldUp.size
    }
    assert(told == Seq(0, 0, 0, 0, 1, 1))
    assert(rests.heldUp.head._2.endsWith("the connection was lost"))
    round += 1000
    store.readsLeft = -1
    assert(rests.bringAll(run) && rests.heldUp.isEmpty && !isPartial)
  }

  for (isOfOne <- Seq(false, true)) {
    val file = if (isOfOne) "a file that has nothing of the bin" else "no file"
    test(s"what the source has lost and $file has stays lacking, and that is told by name") {
      val moving = new Moving(keys = 10)
      import moving._
      end()
      heard = _ => Answer.Gone
      lose(isOfOne)
      var round = 0L
      val rests = restsOf(moving, peers, settled = 2, round = () => round)
      val told = for (_ <- 1 to 5) yield {
        round += 1000
        intercept[Exception with MegaphoneError](rests.bringAll(turn.key.run)).condition
      }
      assert(told == Seq.fill(5)(if (isOfOne) "DAMAGED_FILE" else "MISSING_FILE"))
      assert(rests.heldUp.map(_._1) == Vector(WorkerId(turn.key, 1)))
      assert(rests.heldUp.head._2.contains(s"$takenFrom"))
      assert(isPartial && rests.whole.isEmpty && !(0 until 10).exists(has))
      val ofBatch = intercept[Exception with MegaphoneError] {
        runBatch(2)((_, fetcher) => fetcher.bring(0, hashOf(5)))
      }
      assert(ofBatch.condition == told.last, "a batch that needs it fails by the same name")
    }
  }

  test("what comes while a task has the lease waits, and what the task has done stays") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    val run = turn.key.run
    val rests = restsOf(moving, peers, settled = 2)
    val (_, footer) = runBatch(2) { (task, fetcher) =>
      assert(!rests.bringAll(run) && asked.count(_.isInstanceOf[Question.Rest]) == 10)
      assert(!rests.bringAll(run) && rests.dueRuns == Set(run) && log.keyCount == 0)
      target.measure()
      assert(target.budget.heldBytes > task.holding.heapBytes, "what waits counts")
      fetcher.bring(0, hashOf(3))
      fetcher.bring(0, hashOf(4))
      put(task.holding, 0, keyOf(3), Array[Byte](77))
      task.holding.touch(0)
      task.holding.log(0).remove(0, keyOf(4), 0, keyOf(4).length)
    }
    assert(footer.keyCounts(0) == 9 && log.keyCount == 1)
    assert(rests.bringAll(run) && asked.size == 12 && !isPartial, "nothing was asked for again")
    assert(rests.whole == Vector(WorkerId(turn.key, 1) -> 3L))
    assert(!rests.bringAll(run) && rests.dueRuns.isEmpty)
    def check(log: BinLog) = {
      assert(log.keyCount == 9 && list(log, keyOf(3)) == Seq(77) && list(log, keyOf(9)) == Seq(9))
      assert(!log.has(0, keyOf(4), 0, keyOf(4).length))
    }
    check(log)
    assert(log.tail().bytes > 0, "the commit may still be undone")
    val (told, next) = runBatch(3) { (task, _) => put(task.holding, 0, keyOf(0), Array[Byte](0)) }
    assert(told.bytesFromPeer == 10 * 100)
    check(log)
    runZero(until = 3)
    check(store.recovery.load(next.file, Seq(0), after.contentHash).bins(0).log)
    target.measure()
    assert(target.budget.heldBytes == lease.holding.heapBytes, "nothing waits")
  }

  test("only so much is asked for while a task has the lease") {
    val moving = new Moving(keys = 10, _ => new Array[Byte](1000))
    import moving._
    end()
    val rests = restsOf(moving, peers, settled = 2, aheadBytes = 3000)
    runBatch(2) { (_, _) => for (_ <- 1 to 2) rests.bringAll(turn.key.run) }
    assert(asked.size == 3 && log.keyCount == 0)
    assert(rests.bringAll(turn.key.run) && asked.size == 10 && log.keyCount == 10)
  }

  test("what waits for a holding that is lost is dropped, and its bytes are told") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    val run = turn.key.run
    val rests = restsOf(moving, peers, settled = 2)
    val task = store.lease(target, 1, 4)
    rests.bringAll(run)
    task.abandon()
    rests.keep(Orders(2, Map(run -> LiveRun("root", 2, Set(step), None)), Vector.empty))
    target.measure()
    val left = target.holding(WorkerId(turn.key, 1)).fold(0L)(_.heapBytes)
    assert(target.budget.heldBytes == left, "the lost one is let go")
    assert(asked.size == 10)
    runZero(until = 1)
    runBatch(2) { (_, _) => () }
    assert(rests.dueRuns == Set(run))
    rests.bringAll(run)
    assert(rests.dueRuns.isEmpty && log.keyCount == 0 && rests.whole.isEmpty && asked.size == 10)
    assert(runBatch(3)((_, _) => ())._1.bytesFromPeer == 10 * 100)
  }

  test("what waits for a worker that has gone elsewhere is dropped") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    val rests = restsOf(moving, peers, settled = 2)
    runBatch(2)((_, _) => rests.bringAll(turn.key.run))
    val live = LiveRun("root", 5, Set(step), None)
    rests.keep(Orders(2, Map(turn.key.run -> live), Vector.empty))
    target.measure()
    assert(target.budget.heldBytes == lease.holding.heapBytes)
    assert(rests.bringAll(turn.key.run) && !isPartial && asked.size == 20, "it has come back")
  }

  test("what comes behind something that was dropped is asked for again") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    val run = turn.key.run
    var rests = Option.empty[RestWork]
    val late = new SomePeers(_ => None) {
      override def ask(question: Question, at: ExecutorAddress, deadlineMs: Long): Heard = {
        if (asked.size == 3) // the worker seems to have gone elsewhere
          rests.get.keep(
            Orders(2, Map(run -> LiveRun("root", 5, Set(step), None)), Vector.empty)
          )
        peers.ask(question, at, deadlineMs)
      }
    }
    rests = Some(restsOf(moving, late, settled = 2))
    runBatch(2)((_, _) => { rests.get.bringAll(run); () })
    assert(asked.size > 4 && rests.get.bringAll(run) && !isPartial && (0 until 10).forall(has))
  }

  test("an answer that leads back to where it was asked from has the bin read from the files") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    heard = {
      case Answer.Rest(stretch) if asked.size < 5 =>
        Answer.Rest(stretch.copy(next = Some(-1 << 31)))
      case other => other
    }
    assert(restsOf(moving, peers, settled = 2).bringAll(turn.key.run) && asked.size == 1)
    assert(!isPartial && log.keyCount == 10)
  }

  /** The store's files, and who reads them. */
  private final class Opening(store: Store) {
    var opened = Vector.empty[FileName]
    private val files = new StateFiles {
      override def create(file: FileName): AtomicOutput = store.files.create(file)
      override def open(file: FileName): FileSource = {
        opened :+= file
        store.files.open(file)
      }
    }
    val recovery = new Recovery(files, Compressions(Compression.None))
  }

  test("a source that never comes to what a step has taken is not waited for without end") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    // Its batch ran twice and the other attempt was the one that counts. It has no task any more.
    source.holding(WorkerId(turn.key, 0)).foreach(_.undoHead())
    var round = 0L
    val rests = restsOf(moving, peers, settled = 2, round = () => round)
    for (now <- Seq(0L, RestWork.BehindRoundsMax - 1)) {
      round = now
      assert(!rests.bringAll(turn.key.run) && isPartial)
    }
    round += 1
    assert(rests.bringAll(turn.key.run) && !isPartial)
    for (i <- 0 until 10) assert(list(log, keyOf(i)) == Seq(i))
  }

  test("bins that a source has lost are read together, and each file is opened once") {
    for ((aheadBytes, times) <- Seq((1L << 20) -> 1, 1L -> 2)) {
      val moving = new Moving(keys = 10, inTwo = 100 until 110)
      import moving._
      end()
      heard = _ => Answer.Gone
      val files = new Opening(store)
      val rests = restsOf(moving, peers, 2, Some(files.recovery), aheadBytes = aheadBytes)
      runBatch(2) { (_, _) =>
        assert(!rests.bringAll(turn.key.run) && files.opened.nonEmpty && !has(0))
      }
      assert(rests.bringAll(turn.key.run) && !lease.holding.areIncomplete)
      assert(((0 until 10) ++ (100 until 110)).forall(has) && rests.whole.size == 1)
      assert(files.opened == Vector.fill(times)(FileName(0, StateName(1, ""))))
    }
  }

  /** An executor with two workers that lack bins, one of them the same; their source is gone. */
  private final class TwoLacking(budgetBytes: Long, folder: Path) {
    private val budget = new HeapBudget(budgetBytes, new SpillFiles(Seq(folder)))
    val moving = new Moving(keys = 10, inTwo = 100 until 110, budget = budget)
    import moving._
    end()
    heard = _ => Answer.Gone
    val other: Lease = store.lease(target, 2, 50)
    private val was = state.elsewhere.get
    private val remote = new Remote(was.key, was.name, was.chain, None, was.keys)
    other.holding.put(LoadedBin(0, new BinLog, was.chain, Some(remote)))
    other.holding.restart(StateName(2, ""), Vector(FileName(2, StateName(2, ""))))
    val files = new Opening(store)
    val rests: RestWork = restsOf(moving, peers, 2, Some(files.recovery))
    target.measure()

    def bringAll(): Boolean = rests.bringAll(turn.key.run)
    def areComplete: Boolean = !lease.holding.areIncomplete && !other.holding.areIncomplete &&
      ((0 until 10) ++ (100 until 110)).forall(has) && other.holding.log(0).keyCount == 10
  }

  test("while memory is short the workers of an executor read one bin at a time together") {
    HeapBudgetSuite.withFolder { folder =>
      for ((bytes, atOnce, inAll) <- Seq((1L, 1, 3), (1L << 40, 2, 2))) {
        val two = new TwoLacking(bytes, folder)
        two.moving.runBatch(2) { (_, _) =>
          for (_ <- 1 to 2) two.bringAll()
          assert(two.files.opened.size == atOnce)
        }
        two.other.release()
        assert(two.bringAll() && two.files.opened.size == inAll && two.areComplete)
      }
    }
  }

  test("a worker for whose rest there is no heap waits for its next turn, and the others go on") {
    HeapBudgetSuite.withFolder { folder =>
      val two = new TwoLacking(1L << 40, folder)
      two.moving.heard = _ => throw new OutOfMemoryError("no heap")
      two.other.release()
      intercept[OutOfMemoryError](two.bringAll())
      assert(two.other.holding.log(0).keyCount == 10 && two.moving.isPartial)
      assert(!two.bringAll(), "it rests")
    }
  }

  test("what has come for a worker whose rest is to come later holds up no other's") {
    HeapBudgetSuite.withFolder { folder =>
      val two = new TwoLacking(1, folder)
      import two.moving._
      runBatch(2) { (_, _) =>
        two.bringAll()
        two.other.holding.restAfter = Some(WorkerId(turn.key, 1))
      }
      two.other.release()
      assert(two.bringAll() && two.areComplete)
    }
  }

  test("what a bin from the files lacks here is looked for before its worker's lease is taken") {
    val moving = new Moving(keys = 10)
    import moving._
    fetcher.bring(0, hashOf(3))
    end()
    heard = _ => Answer.Gone
    var looks = Vector.empty[Boolean] // whether the lease was free
    def isFree =
      target.tryLease(WorkerId(turn.key, 1), 4, new Attempt(-9, () => true)).map(_.release())
    target.useKeyReader(
      turn.key,
      () =>
        (family, bytes, from, length) => {
          looks :+= isFree.isDefined
          hash.hashOf(family, bytes, from, length)
        }
    )
    assert(restsOf(moving, peers, settled = 2).bringAll(turn.key.run) && !isPartial)
    assert(looks.size >= 10 && looks.forall(_ == true))
    assert((0 until 10).map(i => list(log, keyOf(i))) == (0 until 10).map(i => Seq(i.toByte)))
  }

  test("of a bin from the files that waits, what a task brings and writes meanwhile stays") {
    val moving = new Moving(keys = 10)
    import moving._
    end()
    heard = _ => Answer.Gone
    val rests = restsOf(moving, peers, settled = 2)
    runBatch(2) { (task, fetcher) =>
      rests.bringAll(turn.key.run)
      heard = identity
      fetcher.bring(0, hashOf(3))
      fetcher.bring(0, hashOf(4))
      put(task.holding, 0, keyOf(3), Array[Byte](77))
      task.holding.touch(0)
      task.holding.log(0).remove(0, keyOf(4), 0, keyOf(4).length)
    }
    val before = asked.size
    assert(rests.bringAll(turn.key.run) && asked.size == before && rests.whole.size == 1)
    assert(!isPartial && log.keyCount == 9 && list(log, keyOf(3)) == Seq(77) && !has(4))
    for (i <- Seq(0, 1, 2) ++ (5 until 10)) assert(list(log, keyOf(i)) == Seq(i.toByte))
  }

  test("what a worker lacks is asked for only where the worker runs") {
    val moving = new Moving(keys = 10)
    import moving._
    store.commit(lease, turn)
    lease.end()
    val run = turn.key.run
    val left = restsOf(moving, peers, settled = 5) // it has gone on elsewhere
    assert(left.dueRuns.isEmpty && !left.bringAll(run) && asked.isEmpty)
    val stayed = restsOf(moving, peers, settled = 2)
    assert(stayed.dueRuns == Set(run) && stayed.bringAll(run))
    assert(asked.nonEmpty && !lease.holding.areIncomplete)
    val opener = new Opener(target, store.recovery, store.handOver, peers, 60000)
    def opened(task: Long, batch: Long) = {
      val (lease, turn) = (store.lease(target, 1, task), store.turn(batch, after, after))
      val opened = opener.open(lease, turn, Sources.None)
      store.commit(lease, turn)
      lease.end()
      opened
    }
    val next = opened(task = 4, batch = 2)
    assert(next.isNews && !next.isAny && next.bytesFromPeer > 0, "the next batch tells what came")
  }
}
