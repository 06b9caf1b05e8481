// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.megaphone.checkpoint.Recovery
import io.megaphone.checkpoint.Recovery.Located
import io.megaphone.format.{StoreKey, WorkerId}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.Throttle
import io.megaphone.state.{Holding, Registry, ReplicaKey, Traffic}
import io.megaphone.transfer.{Answer, Heard, Peers, Question, StandbyKeeper}

/** Brings the rest of what steps on demand have left elsewhere, while no batch asks for it: rule
  * 35.
  *
  *   1. `bringAll` asks the source for a stretch of sub-bins of one bin, at the rate of the run: of
  *      the bin that tasks have asked for most, as they will again.
  *   1. It takes the stretch in under the worker's lease, between two tasks of the worker: what is
  *      here by then is left out. ''A task has the lease:'' what has come waits for it, and some
  *      more is asked for meanwhile.
  *   1. If the source has it no more, the bins come from its files, whole, some at a time. What of
  *      a bin is here already is left out; the records are read before the lease is taken. ''The
  *      source is behind:'' it is asked again for some rounds, then the files serve, too. It may
  *      never run the worker again.
  *   1. While memory is short, what the worker has goes to disk first, and nothing more is asked
  *      for or read while something waits on this executor. ''The disk is full:'' what has come
  *      waits, and the worker is told of. So is one whose rest cannot be brought again and again.
  *   1. Once no bin of a worker is incomplete, that is reported. ''Lost:'' the next report says it
  *      again, and so does the worker's next commit.
  *
  * ''Dies:'' the worker is recovered elsewhere, from its own files, whole.
  *
  * Threads: any. One call of `bringAll` at a time for a run.
  *
  * @param recoveryOf
  *   reads a store's files; the second argument is the checkpoint's root folder, the third is
  *   called with the records that are read
  * @param orders
  *   the newest ones
  * @param round
  *   how many orders were obeyed
  * @param aheadBytes
  *   about how many bytes wait for leases at most, beside the first answer for each worker, or the
  *   first bin that is read for it
  * @param stretchBytes
  *   about how many bytes of a bin from files are taken in under one lease, if not all of it is
  */
final class RestWork private[runtime] (
    registry: Registry,
    peers: Peers,
    recoveryOf: (StoreKey, String, Array[Byte] => Unit) => Recovery,
    orders: () => Orders,
    faults: FaultPoints,
    throttle: Throttle,
    round: () => Long,
    aheadBytes: Long = RestWork.AheadBytes,
    stretchBytes: Int = RestWork.StretchBytes
) {
  import Brought._
  import RestWork._

  private val rests = new BackOff[WorkerId](round, RestMax)

  // What has come for a worker and waits for its lease, in the order in which it came.
  private val waiting = new ConcurrentHashMap[WorkerId, Vector[Brought]]()

  // Why their rest did not come when it was last to be brought.
  private val obstacles = new ConcurrentHashMap[WorkerId, String]()
  private val wholeSince = new ConcurrentHashMap[WorkerId, java.lang.Long]()

  // The round in which a source first said that it is behind what a step takes.
  private val behindSince = new ConcurrentHashMap[ReplicaKey, java.lang.Long]()

  /** The workers here whose bins have all come while no task ran, each with its version then. */
  private[runtime] def whole: Vector[(WorkerId, Long)] =
    wholeSince.asScala.iterator.map { case (worker, version) => worker -> version.toLong }.toVector

  /** The workers here of which something is elsewhere and does not come, each with the reason: what
    * this executor does or lacks.
    */
  private[runtime] def heldUp: Vector[(WorkerId, String)] = obstacles.asScala.toVector

  /** Forgets the workers of runs of which no step is under way, and what waits for holdings that
    * are lost.
    */
  private[runtime] def keep(orders: Orders): Unit = {
    rests.keep(w => orders.runs.contains(w.store.run))
    behindSince.keySet.removeIf(key => !orders.runs.contains(key.store.run))
    waiting.keySet.forEach(letLostGo(_))
    // Of a holding that is lost, the next one tells the bytes.
    def isTold(worker: WorkerId) =
      isHere(worker, orders) || registry.holding(worker).exists(StandbyKeeper.isEmpty)
    waiting.keySet.asScala.filterNot(isTold).foreach { worker =>
      Option(waiting.remove(worker)).foreach(_.foreach(registry.forget))
    }
    obstacles.keySet.removeIf(w => !registry.holding(w).exists(_.areIncomplete))
    wholeSince.keySet.removeIf(w => !orders.runs.get(w.store.run).exists(_.steps.nonEmpty))
    ()
  }

  /** The runs of which a worker has incomplete bins here. */
  def dueRuns: Set[String] = due.iterator.map(_.store.run).toSet

  /** Brings all that is elsewhere of a run's workers. Returns whether there is news for the driver.
    * A worker that fails rests for some rounds of orders, and the others go on; then this throws
    * what it failed with. Throws InterruptedException.
    */
  def bringAll(run: String): Boolean = {
    val done = mutable.Set.empty[WorkerId] // for now
    var failure = Option.empty[Throwable]
    @tailrec
    def go(hasNews: Boolean): Boolean = due.find(w => w.store.run == run && !done(w)) match {
      case None => hasNews
      case Some(worker) =>
        val outcome =
          try { val o = bring(worker); if (o != Busy) rests.succeeded(worker); o }
          catch {
            case e: InterruptedException => throw e
            case e: Throwable => failed(worker, e); failure = Some(e); Busy
          }
        if (outcome == Busy) done += worker
        go(hasNews || outcome == Whole)
    }
    val hasNews = go(false)
    failure.foreach(throw _) // the others have had their turn
    hasNews
  }

  private def failed(worker: WorkerId, cause: Throwable): Unit =
    if (rests.failed(worker) >= BackOff.FailuresTold) {
      obstacles.put(worker, s"cannot bring it, and goes on trying: ${BackOff.reasonOf(cause)}")
      ()
    }

  /** Those first for which something waits, for others may wait until it is taken in. Also if it is
    * of no use any more: its bytes are to be told.
    */
  private def due: Vector[WorkerId] = {
    val now = orders()
    (waiting.keySet.asScala.toVector ++ registry.workers(_.areIncomplete)).distinct
      .filter(worker => isHere(worker, now) && !rests.rests(worker))
      .filter(worker => waiting.containsKey(worker) || !isBehind(worker))
  }

  /** Whether the worker runs here: else another executor brings what it lacks. */
  private def isHere(worker: WorkerId, orders: Orders) = orders.runs
    .get(worker.store.run)
    .exists(run => registry.holding(worker).exists(_.keepsUp(run.settled)))

  /** Whether nothing is asked for yet, because another worker's rest comes first. */
  private def isBehind(worker: WorkerId) = registry
    .holding(worker)
    .flatMap(_.restAfter)
    .exists(registry.holding(_).exists(_.areIncomplete))

  /** Takes in what has waited longest, or asks for more. If it can do nothing else, it waits a
    * moment for a task to give the lease back.
    */
  private def bring(worker: WorkerId): Outcome =
    registry.holding(worker).fold[Outcome](Whole) { holding =>
      letLostGo(worker)
      val brought = waiting.getOrDefault(worker, Vector.empty)
      val isFull = this.isFull(brought)
      val open = if (isFull || isBehind(worker)) Vector.empty else openOf(holding, brought)
      brought.headOption
        .flatMap(takenIn(worker, _, isPatient = open.isEmpty))
        .orElse(open.headOption.map(_ => ask(worker, holding, open)))
        .getOrElse(if (brought.isEmpty && !isFull) Whole else Busy)
    }

  /** Whether nothing more is asked for, as long as this and that of other workers wait. */
  private def isFull(brought: Vector[Brought]) =
    if (registry.budget.isTight) waitingBytes > 0
    else brought.nonEmpty && waitingBytes >= aheadBytes

  private def waitingBytes = waiting.values.asScala.flatten.map(_.heapBytes).sum

  /** The incomplete bins of which something is still to be asked for: that first which tasks have
    * asked for most.
    */
  private def openOf(holding: Holding, brought: Vector[Brought]): Vector[Open] = (for {
    (bin, remote) <- holding.incomplete
    last = brought.reverseIterator.find(_.isOf(remote))
    from <- last.fold(Option(remote.restFrom))(_.next)
  } yield Open(bin, remote, from, remote.asked)).sortBy(o => (-o.asked, o.bin))

  private def ask(worker: WorkerId, holding: Holding, open: Vector[Open]): Outcome = {
    faults.at(FaultPoints.RestAsked)
    val Open(bin, remote, from, _) = open.head
    val keys = Map(bin -> remote.keys)
    val question = Question.Rest(remote.key, remote.name, keys, bin, from, remote.hereFrom(from))
    val Heard(answer, bytes, _) =
      remote.at.fold(Heard.Nothing)(peers.ask(question, _, ImpatientPeers.AnswerMs))
    answer match {
      case Answer.Rest(stretch) if question.isAnsweredBy(answer, holding.binsCount) =>
        throttle.pass(worker.store.run, stretch.bytes)
        add(worker, new Answered(holding, open.head, stretch, Traffic(fromPeer = bytes)))
        Grown
      case Answer.NotYet if mayStillCome(remote.key) => Busy
      case _ => fromFiles(worker, holding, open, Traffic(fromPeer = bytes))
    }
  }

  private def mayStillCome(source: ReplicaKey) =
    round() - behindSince.computeIfAbsent(source, _ => round()) < BehindRoundsMax

  /** Reads the first of these bins, and others that the same export had, as far as there is room:
    * they have files in common, and each is opened once.
    */
  private def fromFiles(
      worker: WorkerId,
      holding: Holding,
      open: Vector[Open],
      heard: Traffic
  ): Outcome = orders().runs.get(worker.store.run).fold[Outcome](Busy) { run =>
    val same = open.filter(_.remote.key == open.head.remote.key)
    val bytesBefore = same.scanLeft(0L)(_ + _.bytes)
    val room = if (registry.budget.isTight) 0L else aheadBytes - waitingBytes
    val some = same.head +: same.zip(bytesBefore).tail.takeWhile(_._2 < room).map(_._1)
    def count(records: Array[Byte]): Unit = throttle.pass(worker.store.run, records.length.toLong)
    val loaded = recoveryOf(worker.store, run.checkpointRoot, count)
      .load(some.map(o => o.bin -> Located(o.remote.chain, o.remote.keys)).toMap)
    var traffic = heard + loaded.traffic
    lazy val keys = registry.keyReaderOf(worker.store).get // it may take long to make one
    some.foreach { o =>
      add(worker, new Loaded(holding, o, loaded.bins(o.bin).log, traffic, keys, stretchBytes))
      traffic = Traffic() // it is told once
    }
    Grown
  }

  private def add(worker: WorkerId, brought: Brought): Unit = {
    registry.count(brought)
    waiting.compute(
      worker,
      (_, before) => if (before == null) Vector(brought) else before :+ brought
    )
    ()
  }

  /** Of what waits for a holding that the worker has no more, only the bytes are still to be told.
    * It lets the holding go, and all memory and disk that it has.
    */
  private def letLostGo(worker: WorkerId): Unit = {
    val holding = registry.holding(worker)
    waiting.computeIfPresent(
      worker,
      (_, all) =>
        all.map { brought =>
          if (brought.at.forall(at => holding.exists(_ eq at.holding))) brought
          else { registry.forget(brought); new Lost(brought) }
        }
    )
    ()
  }

  private def remove(worker: WorkerId, brought: Brought): Unit = {
    registry.forget(brought)
    waiting.computeIfPresent(
      worker,
      (_, all) => Option(all.filterNot(_ eq brought)).filter(_.nonEmpty).orNull
    )
    ()
  }

  /** Takes in what has come, once no task has the lease. Returns None if a task keeps it: for some
    * time, if this is patient. If the worker has another holding by then, or of the bin something
    * else is elsewhere, nothing is used of what has come. If taking in throws, the holding is
    * dropped, unless there is no room.
    */
  private def takenIn(worker: WorkerId, brought: Brought, isPatient: Boolean): Option[Outcome] = {
    val attempt =
      registry.background(NoTask, () => brought.at.fold(0L)(_.remote.broughtCount.toLong))
    def isWanted(here: Holding) =
      brought.isFor(here) && here.stateOf(brought.bin).elsewhere.exists(brought.isOf)
    if (registry.holding(worker).exists(isWanted)) brought.prepare()
    registry.borrow(worker, attempt)(here => !isPatient || !brought.isFor(here)).map { lease =>
      lease.forStandby {
        val holding = lease.holding
        val isIts = isWanted(holding)
        try {
          if (isIts) makeRoom(holding)
          val isAll = !isIts || brought.takeIn() || !isWanted(holding)
          obstacles.remove(worker)
          if (isAll) {
            remove(worker, brought)
            holding.cameBetween += brought.traffic
          }
          if (!isAll || holding.areIncomplete) Grown
          else {
            if (isIts) wholeSince.put(worker, holding.head.getOrElse(holding.base).version)
            registry.measure()
            Whole
          }
        } catch {
          case _: SpillException => obstacles.put(worker, NoRoom); rests.failed(worker); Busy
        }
      }
    }
  }

  /** Spills what is beyond the memory's mark, a piece at a time, so that no task waits for long: a
    * tenth is for the batches. Throws SpillException.
    */
  private def makeRoom(holding: Holding): Unit = if (registry.budget.isTight) {
    registry.measure()
    val excess = registry.budget.excessOfReplicas
    if (excess > 0) holding.spill(math.min(SpilledAtOnce, excess))
  }
}

private object RestWork {
  private val AheadBytes = 16L << 20
  private val StretchBytes = 1 << 20

  /** As many as some answers have, or a task that comes would wait for long. */
  private val SpilledAtOnce = 4L << 20

  /** Rounds of orders that a worker rests at most after a failure. */
  private val RestMax = 300L

  /** Rounds of orders that a source is waited for that is behind: about ten seconds. */
  private[runtime] val BehindRoundsMax = 100L
  private val NoRoom =
    "has no room for it: give executors more local disk or memory, or move bins elsewhere."

  private sealed trait Outcome
  private case object Whole extends Outcome
  private case object Grown extends Outcome

  /** A task has the worker's lease, there is no room, or the source is not ready: later. */
  private case object Busy extends Outcome

  /** No task attempt has this id. */
  private val NoTask = -2L
}
