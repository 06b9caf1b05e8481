// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.nio.file.{Files, Path}

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, Recovery, StateFiles}
import io.megaphone.errors.{DamagedFileException, DetachedLeaseException}
import io.megaphone.format.{
  Checksum, Compression, Compressions, Encoder, ExecutorAddress, FileName, FileSource, Footer,
  StateName, WorkerId
}
import io.megaphone.log.{BinLog, Due, KeyReader, RowTime}
import io.megaphone.log.memory.{DamagedRecordsException, HeapBudget, HeapBudgetSuite, SpillFiles}
import io.megaphone.pace.{Clock, Throttle}
import io.megaphone.plan.{Bins, Move, StepId}
import io.megaphone.protocol.Route
import io.megaphone.state.{
  Attempt, BinState, Lease, LoadedBin, Registry, Remote, ReplicaKey, Stretch, SubBin, Traffic
}
import io.megaphone.transfer.{Answer, Answering, BlockKind, BlockName, Heard, Peers, Question}

/** What a worker brings of a bin that a step on demand has left elsewhere. */
class FetcherSuite extends AnyFunSuite with SmallStore {
  private val step = StepId("plan", 0, 0)
  private val executor = ExecutorAddress("source", "host", 1)
  private val hash: KeyReader = new KeyReader {
    override def hashOf(family: Int, bytes: Array[Byte], from: Int, length: Int): Int =
      Checksum.of(bytes.slice(from, from + length)) & ~3 | binOf(numberIn(bytes, from, length))
    override def timeOf(family: Int, bytes: Array[Byte], from: Int, length: Int): Long =
      numberIn(bytes, from, length).toLong

    private def numberIn(bytes: Array[Byte], from: Int, length: Int) =
      new String(bytes, from, length).stripPrefix("key ").toInt
  }

  private def binOf(i: Int) = if (i < 100) 0 else 2

  private def keyOf(i: Int) = s"key $i".getBytes
  private def hashOf(i: Int) = hash.hashOf(0, keyOf(i), 0, keyOf(i).length)

  /** Worker 0 has bin 0 on one executor, with some keys, and worker 1 takes it on another.
    *
    * @param inTwo
    *   keys from 100 on, in bin 2, which it takes, too, if there are any
    * @param areApart
    *   whether each bin is taken by a step of its own, and so has an export of its own
    */
  private class Moving(
      keys: Int,
      valueOf: Int => Array[Byte] = i => Array(i.toByte),
      dueBytes: Int = 1 << 20,
      inTwo: Seq[Int] = Nil,
      looks: Int = 1 << 20,
      budget: HeapBudget = new HeapBudget(1L << 40, new SpillFiles(Vector.empty)),
      areApart: Boolean = false
  ) {
    val bins: Vector[Int] = if (inTwo.isEmpty) Vector(0) else Vector(0, 2)
    val store = new Store
    val (source, target) = (new Registry, new Registry(budget = budget, borrowMs = 0))
    private val id = store.turn(0, before, before).key
    Seq(source, target).foreach(_.useKeyReader(id, () => hash))
    val exportKey: ReplicaKey = ReplicaKey.forStep(id, 0, 1, step)
    private val gave: Lease = {
      val lease = store.lease(source, 0, 1)
      val turn = store.turn(0, before, before)
      store.open(source, lease, turn)
      ((0 until keys) ++ inTwo).foreach(i => put(lease.holding, binOf(i), keyOf(i), valueOf(i)))
      store.commit(lease, turn)
      lease.end()
      lease
    }
    private val taking: Map[StepId, Vector[Int]] =
      if (areApart) bins.map(bin => StepId("plan", 0, bin) -> Vector(bin)).toMap
      else Map(step -> bins)
    private val offers =
      taking.view.mapValues(some => onlyPart(store.handOver.offer(gave.holding, some))).toMap
    private val own = store.lease(target, 1, 2)
    locally {
      val turn = store.turn(0, before, before)
      store.open(target, own, turn)
      store.commit(own, turn)
      own.end()
    }

    val asked: mutable.Buffer[Question] = mutable.Buffer.empty

    /** What becomes of an answer, how long it takes, and how many bytes come. */
    var heard: Answer => Answer = identity
    var answerMs = 0L
    var answerBytes = 100L
    private var passedNanos = 0L
    private val clock = new Clock {
      override def nanoTime: Long = passedNanos
      override def waitOn(monitor: Object, nanos: Long): Unit = passedNanos += nanos
    }
    private val answering = new Answering(source, restBytes = 1, dueBytes, looks)

    /** Answers that are waited for, and the most that there were. */
    var openNow = 0
    var openMost = 0
    val peers: SomePeers = new SomePeers(b => offers.get(b.step).filter(_ => isOffer(b))) {
      override def asking(
          question: Question,
          at: ExecutorAddress,
          deadlineMs: Long
      ): () => Heard = {
        asked += question
        openNow += 1
        openMost = math.max(openMost, openNow)
        val come =
          if (answerMs >= deadlineMs) Heard.Late
          else Heard(heard(answering(question)), answerBytes)
        val waitMs = math.min(answerMs, deadlineMs)
        () => { openNow -= 1; passedNanos += 1000000 * waitMs; come }
      }
      override def ask(question: Question, at: ExecutorAddress, deadlineMs: Long): Heard =
        asking(question, at, deadlineMs)()
    }
    val sources: Sources = Sources(
      taking.flatMap { case (step, some) => some.map(_ -> step) },
      Map(0 -> executor),
      60000,
      60000,
      taking.view.mapValues(some => Vector(Route(0, 1, some.to(ArraySeq)))).toMap
    )
    private val moved = before.moved(bins.map(Move(_, 1)), 1, 2)
    val turn = store.turn(1, before, moved).copy(incomplete = bins.toSet)
    val opener: Opener =
      new Opener(target, store.recovery, store.handOver, peers, fetchDeadlineMs = 10000, clock)
    val lease: Lease = store.lease(target, 1, 3)
    val arrivals: Arrivals = opener.open(lease, turn, sources)
    val fetcher: Fetcher = opener.fetcher(lease, turn.key, arrivals)

    private def isOffer(block: BlockName) = block.kind == BlockKind.Offer
    def log: BinLog = lease.holding.log(0)
    def state: BinState = lease.holding.stateOf(0)
    def has(i: Int): Boolean =
      lease.holding.log(binOf(i)).has(0, keyOf(i), 0, keyOf(i).length)
    def isPartial: Boolean = state.isInstanceOf[BinState.Partial]

    /** The step's batch has ended. */
    def end(): Unit = { store.commit(lease, turn); lease.end() }

    /** Worker 0 commits the step's batch and some after it: its files name the tables, too. */
    def runZero(until: Long): Unit = {
      val zero = store.lease(source, 0, 9)
      (turn +: (2L to until).map(store.turn(_, after, after))).foreach { each =>
        store.open(source, zero, each)
        store.commit(zero, each)
      }
    }

    /** Runs a batch after it. Returns what its commit tells. */
    def runBatch(version: Long)(use: (Lease, Fetcher) => Unit): (Arrivals, Footer) = {
      val next = store.turn(version, after, after).copy(incomplete = bins.toSet)
      val task = store.lease(target, 1, version + 2)
      val opened = opener.open(task, next, Sources.None)
      use(task, opener.fetcher(task, next.key, opened))
      val footer = store.commit(task, next)
      task.holding.cameBetween = Traffic()
      task.end()
      (opened, footer)
    }
  }

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

  test("a source that went on elsewhere before the step was sealed is dropped") {
    val moving = new Moving(keys = 10)
    import moving._
    source.exports.announce(exportKey, bins)
    source.keepRuns(_ => Some(5), isDraining = true)
    assert(source.holdingsCount == 0, "it can never be lent: the step will take a later name")
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

  private def restsOf(
      moving: Moving,
      peers: Peers,
      settled: Long,
      recovery: Option[Recovery] = None,
      round: () => Long = () => 0,
      aheadBytes: Long = 1 << 20
  ) = {
    val live = LiveRun("root", settled, Set(step), None)
    val orders = Orders(1, Map(moving.turn.key.run -> live), Vector.empty)
    new RestWork(
      moving.target,
      peers,
      (_, _, _) => recovery.getOrElse(moving.store.recovery),
      () => orders,
      FaultPoints.Off,
      new Throttle(Clock.System),
      round,
      aheadBytes,
      stretchBytes = 1
    )
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
    assert(looks == Vector.fill(10)(true))
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

  test("bins whose keys lead elsewhere are not given in sub-bins") {
    val moving = new Moving(keys = 10)
    import moving._
    source.useKeyReader(turn.key, () => (_, _, _, _) => Bins.of(1, 4))
    fetcher.bring(0, hashOf(1))
    assert(arrivals.binsFromCheckpoint == 1 && log.keyCount == 10)
  }
}
