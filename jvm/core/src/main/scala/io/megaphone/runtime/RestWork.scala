// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.megaphone.checkpoint.Recovery
import io.megaphone.checkpoint.Recovery.Located
import io.megaphone.format.{StoreKey, WorkerId}
import io.megaphone.pace.Throttle
import io.megaphone.state.{Attempt, Holding, Registry, Remote, Traffic}
import io.megaphone.transfer.{Answer, Heard, Peers, Question}

/** Brings the rest of what steps on demand have left elsewhere, while no batch asks for it: rule
  * 35.
  *
  *   1. `bringAll` asks the source for a stretch of sub-bins of one bin, at the rate of the run: of
  *      the bin that tasks have asked for most, as they will again.
  *   1. It takes the stretch in under the worker's lease, between two tasks of the worker: what is
  *      here by then is left out. ''A task has the lease:'' it tries again.
  *   1. If the source has it no more, the bins come from its files, whole.
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
  */
final class RestWork private[runtime] (
    registry: Registry,
    peers: Peers,
    recoveryOf: (StoreKey, String, Array[Byte] => Unit) => Recovery,
    orders: () => Orders,
    faults: FaultPoints,
    throttle: Throttle,
    round: () => Long
) {
  import RestWork._

  private val rests = new BackOff[WorkerId](round, RestMax)

  // Memory was too short for their rest when it was last to come.
  private val withoutRoom = ConcurrentHashMap.newKeySet[WorkerId]()
  private val wholeSince = new ConcurrentHashMap[WorkerId, java.lang.Long]()

  /** The workers here whose bins have all come while no task ran, each with its version then. */
  private[runtime] def whole: Vector[(WorkerId, Long)] =
    wholeSince.asScala.iterator.map { case (worker, version) => worker -> version.toLong }.toVector

  /** The workers here of which something is elsewhere, and memory is too short for it. */
  private[runtime] def noRoom: Vector[WorkerId] = withoutRoom.asScala.toVector

  /** Forgets the workers of runs of which no step is under way. */
  private[runtime] def keep(orders: Orders): Unit = {
    rests.keep(w => orders.runs.contains(w.store.run))
    withoutRoom.removeIf(w => !registry.holding(w).exists(_.areIncomplete))
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
          catch { case NonFatal(e) => rests.failed(worker); failure = Some(e); Busy }
        if (outcome == Busy) done += worker
        go(hasNews || outcome == Whole)
    }
    val hasNews = go(false)
    failure.foreach(throw _) // the others have had their turn
    hasNews
  }

  private def due: Vector[WorkerId] = {
    val runs = orders().runs
    registry.workers(_.areIncomplete).filter { worker =>
      runs.get(worker.store.run).exists(run => isHere(worker, run.settled)) &&
      !rests.rests(worker) && !isBehind(worker)
    }
  }

  /** Whether the worker runs here: else another executor brings what it lacks. */
  private def isHere(worker: WorkerId, settled: Long) =
    registry.holding(worker).exists(_.keepsUp(settled))

  private def isBehind(worker: WorkerId) = registry
    .holding(worker)
    .flatMap(_.restAfter)
    .exists(registry.holding(_).exists(_.areIncomplete))

  /** Brings a stretch of a worker's bins. While memory is short, batches come first. */
  private def bring(worker: WorkerId): Outcome = (for {
    holding <- registry.holding(worker)
    (bin, remote) <- holding.incomplete.maxByOption(_._2.asked)
  } yield {
    faults.at(FaultPoints.RestAsked)
    if (registry.budget.isTight) { withoutRoom.add(worker); Busy }
    else {
      withoutRoom.remove(worker)
      val Heard(answer, bytes) = remote.at.fold(Heard.Nothing) { executor =>
        val keys = Map(bin -> remote.keys)
        val from = remote.restFrom
        val question =
          Question.Rest(remote.key, remote.name, keys, bin, from, remote.hereFrom(from))
        peers.ask(question, executor, ImpatientPeers.AnswerMs)
      }
      val isIn = answer match {
        case Answer.Rest(stretch) =>
          throttle.pass(worker.store.run, stretch.bytes)
          alone(worker, holding, bin, remote) {
            stretch.subBins.foreach(holding.takeIn(bin, _))
            holding.cameBetween += Traffic(fromPeer = bytes)
            stretch.next match {
              case Some(next) => remote.restFrom = next
              case None => holding.checkComplete(bin)
            }
          }
        case Answer.NotYet => false
        case _ => fromFiles(worker, holding, bin, remote)
      }
      if (isIn) stateOf(worker, holding) else Busy
    }
  }).getOrElse(Whole)

  private def fromFiles(worker: WorkerId, holding: Holding, bin: Int, remote: Remote): Boolean =
    orders().runs.get(worker.store.run).exists { run =>
      def count(records: Array[Byte]): Unit =
        throttle.pass(worker.store.run, records.length.toLong)
      val loaded = recoveryOf(worker.store, run.checkpointRoot, count)
        .load(Map(bin -> Located(remote.chain, remote.keys)))
      alone(worker, holding, bin, remote) {
        holding.completeFrom(bin, loaded.bins(bin).log, registry.keyReaderOf(worker.store).get)
        holding.cameBetween += loaded.traffic
      }
    }

  /** Uses a holding once no task has its lease. Returns false if a task keeps it for long. If the
    * worker has another holding by then, or of the bin something else is elsewhere, nothing is used
    * of what has come. If `use` throws, the holding is dropped.
    */
  private def alone(worker: WorkerId, holding: Holding, bin: Int, remote: Remote)(
      use: => Unit
  ): Boolean = {
    val thread = Thread.currentThread
    val attempt = new Attempt(NoTask, () => thread.isAlive, isTask = false)
    registry.borrow(worker, attempt)(_ ne holding).exists { lease =>
      lease.forStandby {
        val isSame =
          (lease.holding eq holding) && holding.stateOf(bin).elsewhere.exists(_ eq remote)
        if (isSame) use
        true
      }
    }
  }

  private def stateOf(worker: WorkerId, holding: Holding): Outcome =
    if (holding.areIncomplete) Grown
    else {
      wholeSince.put(worker, holding.head.getOrElse(holding.base).version)
      registry.measure()
      Whole
    }
}

private object RestWork {

  /** Rounds of orders that a worker rests at most after a failure. */
  private val RestMax = 300L

  private sealed trait Outcome
  private case object Whole extends Outcome
  private case object Grown extends Outcome

  /** A task has the worker's lease, or the source is not ready: later. */
  private case object Busy extends Outcome

  /** No task attempt has this id. */
  private val NoTask = -2L
}
