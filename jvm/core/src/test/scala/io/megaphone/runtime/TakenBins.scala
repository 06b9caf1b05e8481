// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Checksum, ExecutorAddress, FileName, Footer, StateName}
import io.megaphone.log.{BinLog, KeyReader}
import io.megaphone.log.memory.{HeapBudget, SpillFiles}
import io.megaphone.pace.{Clock, Hands, Throttle}
import io.megaphone.plan.{Move, StepId}
import io.megaphone.protocol.Route
import io.megaphone.state.{BinState, Lease, Registry, ReplicaKey, Traffic}
import io.megaphone.transfer.{Answer, Answering, BlockKind, BlockName, Heard, Peers, Question}

/** Bins that a step on demand has taken, and left where they were. */
trait TakenBins extends SmallStore {
  protected val step = StepId("plan", 0, 0)
  protected val executor = ExecutorAddress("source", "host", 1)
  protected val hash: KeyReader = new KeyReader {
    override def hashOf(family: Int, bytes: Array[Byte], from: Int, length: Int): Int =
      Checksum.of(bytes.slice(from, from + length)) & ~3 | binOf(numberIn(bytes, from, length))
    override def timeOf(family: Int, bytes: Array[Byte], from: Int, length: Int): Long =
      numberIn(bytes, from, length).toLong

    private def numberIn(bytes: Array[Byte], from: Int, length: Int) =
      new String(bytes, from, length).stripPrefix("key ").toInt
  }

  protected def binOf(i: Int) = if (i < 100) 0 else 2

  protected def keyOf(i: Int) = s"key $i".getBytes
  protected def hashOf(i: Int) = hash.hashOf(0, keyOf(i), 0, keyOf(i).length)

  /** More than a test ever takes, but counted. */
  private def wide = new HeapBudget(1L << 40, new SpillFiles(Vector.empty))

  /** Worker 0 has bin 0 on one executor, with some keys, and worker 1 takes it on another.
    *
    * @param inTwo
    *   keys from 100 on, in bin 2, which it takes, too, if there are any
    * @param areApart
    *   whether each bin is taken by a step of its own, and so has an export of its own
    */
  protected class Moving(
      keys: Int,
      valueOf: Int => Array[Byte] = i => Array(i.toByte),
      dueBytes: Int = 1 << 20,
      inTwo: Seq[Int] = Nil,
      looks: Int = 1 << 20,
      budget: HeapBudget = wide,
      areApart: Boolean = false,
      subBinBytes: Int = 1 << 20
  ) {
    val bins: Vector[Int] = if (inTwo.isEmpty) Vector(0) else Vector(0, 2)
    val store = new Store
    val source = new Registry(budget = wide)
    val target = new Registry(budget = budget, borrowMs = 0)
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
    private val clock = new Hands
    private val answering = new Answering(source, restBytes = 1, dueBytes, looks, subBinBytes)

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
        () => { openNow -= 1; clock.nanoTime += 1000000 * waitMs; come }
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

    /** What worker 0's file had that the bins were taken from is no more: of bin 0, if another
      * attempt has written the file again without it, else of all.
      */
    def lose(isOfOne: Boolean): Unit =
      if (isOfOne) {
        val (other, turn) = (new Registry, store.turn(0, before, before))
        val again = store.lease(other, 0, 8)
        store.open(other, again, turn)
        put(again.holding, 2, 1)
        store.commit(again, turn)
        again.end()
      } else store.files.delete(takenFrom)
    val takenFrom: FileName = FileName(0, StateName(1, ""))

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

  protected def restsOf(
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
}
