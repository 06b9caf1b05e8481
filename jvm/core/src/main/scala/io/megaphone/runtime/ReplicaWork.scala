// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{StateName, StoreKey}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.Throttle
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{Peers, Preparer, ReplicaDuty, TailPulls, TransferBlocks}
import io.megaphone.transfer.TailPulls.Pulled
import io.megaphone.transfer.TransferBlocks.Part

/** The replicas that an executor makes by the driver's orders.
  *
  *   1. `work` works on duties: `pullTails` pulls the tails that they need, and `prepare` makes one
  *      replica, or a slice of it, or brings it forward. ''Dies:'' the replicas are gone; the
  *      driver gives the duties to another executor.
  *   1. One that fails rests for some rounds of orders. One that has no room is reported.
  *
  * Copies keep to the rate in the orders. Tails do not, because a replica must keep up with its
  * source. One that lacks many gets a few for each version. Nor does a slice for which its source
  * has gone on by `LateVersions`, as one with a large bin.
  *
  * Threads: any. One call of `prepare` at a time for a duty.
  *
  * @param orders
  *   the newest ones
  * @param round
  *   how many orders were obeyed
  * @param recoveryOf
  *   reads a store's files; the second argument is the checkpoint's root folder, the third is
  *   called with the records that are read
  * @param pullDeadlineMs
  *   how long a pull may take if the orders do not say it for the run
  */
final class ReplicaWork private[runtime] (
    registry: Registry,
    orders: () => Orders,
    round: () => Long,
    recoveryOf: (StoreKey, String, Array[Byte] => Unit) => Recovery,
    blocks: TransferBlocks,
    peers: Peers,
    pullDeadlineMs: Long,
    faults: FaultPoints,
    warn: String => Unit,
    throttle: Throttle,
    sliceBytes: Long
) {
  import ReplicaWork._

  private val refused = new ConcurrentHashMap[ReplicaKey, Refusal]()
  private val failing = new ConcurrentHashMap[ReplicaKey, String]() // why
  private val turns = // of replicas that lack tails: the name up to which they had some
    new ConcurrentHashMap[ReplicaKey, StateName]()
  private val rests = new BackOff[ReplicaKey](round, RestMax)
  private val counts = new CopyCounts(throttle)
  private val tailPulls = new TailPulls(blocks, peers)

  /** The replicas that had no room when they were last tried, and the reason. */
  private[runtime] def noRoom: Vector[(ReplicaKey, String)] =
    refused.asScala.iterator.map { case (key, refusal) => key -> refusal.reason }.toVector

  /** The replicas that could not be prepared some times in a row, and the last reason. */
  private[runtime] def heldUp: Vector[(ReplicaKey, String)] = failing.asScala.toVector

  /** How much was copied for each replica, by the best attempt. */
  private[runtime] def copied: Vector[(ReplicaKey, Long)] = counts.told

  /** Drops the replicas that orders do not name any more, and forgets what was known of them. */
  private[runtime] def keep(orders: Orders): Unit = {
    registry.keepReplicas(orders.kept)
    Seq(refused, failing, turns).foreach(_.keySet.removeIf(key => !orders.isLive(key)))
    rests.keep(orders.isLive(_))
    counts.keep(orders.isLive(_))
  }

  /** The duties to work on now, in order. A duty that was refused for lack of room waits until its
    * source has committed again; so does one that still lacks tails, unless copies are free. One
    * that failed, or whose image is not there yet, waits for some rounds of orders.
    *
    * Those that are made slice by slice come last, a slice at a time, so that images do not wait
    * for them. A run does not begin with another one while one is growing, unless that one rests:
    * each needs its tails from files until it is whole.
    */
  def duties: Vector[ReplicaDuty] = {
    val due = orders().duties.filterNot { duty =>
      isRefused(duty) || rests.rests(duty.key) || hadItsTurn(duty)
    }
    def grows(duty: ReplicaDuty) = registry.replica(duty.key).exists(!_.isWhole)
    def isNotBegun(duty: ReplicaDuty) =
      duty.usableImage.isEmpty && registry.replica(duty.key).isEmpty
    val (first, inSlices) = due.partition(duty => !grows(duty) && !isNotBegun(duty))
    first ++ inSlices.groupBy(_.key.store.run).flatMap { case (run, ofRun) =>
      def waits = orders().duties.exists(d => d.key.store.run == run && grows(d) && hadItsTurn(d))
      val growing = ofRun.filter(grows)
      if (growing.nonEmpty || waits) growing else ofRun.take(1)
    }
  }

  private def hadItsTurn(duty: ReplicaDuty) =
    turns.get(duty.key) == duty.settled && !throttle.isFree(duty.key.store.run)

  /** A duty as the newest orders name it; None if they do not. */
  def newest(key: ReplicaKey): Option[ReplicaDuty] = orders().duties.find(_.key == key)

  private def isRefused(duty: ReplicaDuty) =
    Option(refused.get(duty.key)).exists(_.settled == duty.settled)

  private def versionOf(key: ReplicaKey) = registry.replica(key).map(_.base.version)

  /** Whether a replica is there with all of its bins: then it is kept up by tails, however long
    * others take to be made.
    */
  def isWhole(key: ReplicaKey): Boolean = registry.replica(key).exists(_.isWhole)

  /** Whether a replica that has room is not there, lacks bins, or has not reached its source's
    * newest settled version.
    */
  private[runtime] def areBehind: Boolean = orders().duties.exists { duty =>
    !isRefused(duty) &&
    !(isWhole(duty.key) && versionOf(duty.key).exists(_ >= duty.settled.version))
  }

  /** Works on duties: asks for the tails of all at once, and makes or brings forward one replica
    * after the other, those first whose tails come first. Orders may come meanwhile: a duty that
    * they no longer name is left out. Returns whether there is news for the driver. Throws
    * InterruptedException if the work is cancelled, and what `host.failed` throws.
    */
  def work(keys: Vector[ReplicaKey], host: DutyHost): Boolean = {
    def orElse[A](otherwise: A, of: Vector[ReplicaKey])(work: => A): A =
      try work
      catch {
        case e: InterruptedException => throw e
        case e: Throwable => host.failed(of, e); otherwise
      }
    val left = mutable.LinkedHashSet.from(keys)
    var hasNews = false
    def workOn(key: ReplicaKey, pulled: Option[Pulled]): Unit = if (left.remove(key)) {
      host.begins(key)
      try
        for (duty <- newest(key)) {
          // A tail fits the duty that it was pulled for.
          val isNews = orElse(false, Vector(key))(prepare(pulled.fold(duty)(_.duty), pulled))
          hasNews ||= isNews
        }
      finally host.ends(key)
    }
    val asked = orElse(Seq.empty[ReplicaDuty], keys) {
      pullTails(keys.flatMap(newest)) { (duty, part) =>
        workOn(duty.key, Some(Pulled(duty, Some(part))))
      }
    }
    val lacking = asked.map(duty => duty.key -> Pulled(duty, None)).toMap
    left.toVector.foreach(key => workOn(key, lacking.get(key)))
    hasNews
  }

  /** Pulls the tails that the replicas of duties need if they lack just one: those of a run at
    * once, so that a source's executor is asked once for all of them. Calls `come` with the first
    * part of each that comes. Returns the duties whose tails were asked for.
    */
  def pullTails(duties: Seq[ReplicaDuty])(come: (ReplicaDuty, Part) => Unit): Seq[ReplicaDuty] =
    for {
      (run, ofRun) <- duties.groupBy(_.key.store.run).toVector
      live <- orders().runs.get(run).toVector
      duty <- tailPulls.lackedBy(ofRun, registry, deadlineOf(live))(come)
    } yield duty

  private def deadlineOf(run: LiveRun): Long = run.pullDeadlineMs.getOrElse(pullDeadlineMs)

  /** Makes a replica, or a slice of it, or brings it forward. Returns whether there is news for the
    * driver. Throws what files throw; see [[io.megaphone.transfer.Preparer]] for what becomes of
    * the replica.
    *
    * After a failure the duty rests for a round of orders, after the next for two, then for four,
    * at most for `RestMax`: what cannot succeed is not tried ten times a second. From the fifth in
    * a row on, reports say why, until it succeeds.
    *
    * @param pulled
    *   what has come of the tail of the duty, if `pullTails` has asked for it
    */
  def prepare(duty: ReplicaDuty, pulled: Option[Pulled] = None): Boolean =
    orders().runs.get(duty.key.store.run).exists { run =>
      try {
        val replica = registry.replica(duty.key)
        val before = replica.map(Preparer.At.of)
        val attempted = new AtomicLong(replica.fold(0L)(_.bytesCopied))
        def isLate =
          newest(duty.key).exists(_.settled.version - duty.settled.version >= LateVersions)
        val copying = counts.counting(duty.key, attempted)
        val reading = counts.counting(duty.key, attempted, () => isLate)
        def recovery(read: Array[Byte] => Unit) =
          recoveryOf(duty.key.store, run.checkpointRoot, read)
        faults.at(FaultPoints.TargetPulling)
        val preparer = new Preparer(
          registry,
          recovery(Recovery.Unchecked),
          recovery(records => reading(records.length.toLong)),
          blocks,
          peers,
          deadlineOf(run),
          copying,
          () => throttle.isFree(duty.key.store.run),
          sliceBytes
        )
        val lastTurn = Option(turns.get(duty.key)).filter(_ => replica.isDefined)
        val newVersions = lastTurn.fold(1L)(duty.settled.version - _.version)
        preparer(duty, pulled, math.max(1, newVersions)) match {
          case at @ Preparer.At(version, binsLacking) =>
            registry.replica(duty.key).foreach(_.copied(attempted.get))
            rests.succeeded(duty.key)
            failing.remove(duty.key)
            refused.remove(duty.key)
            hadTurn(duty, at)
            val isThere = version >= duty.settled.version
            if (isThere && binsLacking == 0) faults.at(FaultPoints.TargetPrepared)
            before.forall(b => binsLacking < b.binsLacking || isThere && b.version < version)
          case Preparer.Waiting =>
            rests.rest(duty.key, WaitingRest)
            refused.remove(duty.key) != null
          case Preparer.Lost(reason) => failed(duty, reason); refused.remove(duty.key) != null
        }
      } catch {
        case e: SpillException =>
          registry.dropReplica(duty.key)
          failing.remove(duty.key)
          refused.put(duty.key, Refusal(duty.settled, e.getMessage))
          registry.measure() // frees the replica's heap for batches at once
          true
        case e: InterruptedException => throw e // the preparation was cancelled
        case e: Throwable => failed(duty, e.toString); throw e
      }
    }

  /** Notes up to which version a replica has had its turns. Those that passed while its image came
    * are no reason to hurry after it. Those that passed while a slice came are: the next slice
    * waits for their tails.
    */
  private def hadTurn(duty: ReplicaDuty, at: Preparer.At): Unit = {
    val now = newest(duty.key).getOrElse(duty).settled
    val turn =
      if (at.version < duty.settled.version) Some(now)
      else Option.when(at.binsLacking > 0 && at.version < now.version)(duty.settled)
    turn.fold(turns.remove(duty.key))(turns.put(duty.key, _))
    ()
  }

  private def failed(duty: ReplicaDuty, reason: String): Unit = {
    val count = rests.failed(duty.key)
    if (count >= BackOff.FailuresTold) failing.put(duty.key, BackOff.lineOf(reason))
    if (count == BackOff.FailuresTold)
      warn(
        s"The replica of ${duty.key} could not be prepared $count times in a row, so its step " +
          s"may have to read files: $reason"
      )
  }
}

private object ReplicaWork {

  /** Rounds of orders that a failed duty rests at most: half a minute, at ten rounds a second. */
  private val RestMax = 300L

  /** The source's new versions after which a slice keeps to no rate: tails must lead on from it. */
  private val LateVersions = 48L

  /** Rounds of orders after which a block that was not there is asked for again. */
  private val WaitingRest = 3L

  /** A replica had no room when its source was at the name `settled`. */
  private final case class Refusal(settled: StateName, reason: String)
}
