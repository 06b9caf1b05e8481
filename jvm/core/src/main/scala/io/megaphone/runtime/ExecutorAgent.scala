// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.megaphone.checkpoint.{Recovery, StateFiles}
import io.megaphone.format.{ExecutorAddress, FileName, Footer, StateName, StoreKey, WorkerId}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.{Clock, Throttle}
import io.megaphone.state.{Holding, Registry, ReplicaKey}
import io.megaphone.transfer.{
  Answer, Answering, BlockName, Peers, Preparer, PushedFile, PushedFiles, Question, ReplicaDuty,
  SentFiles, Slice, StandbyKeeper, TailPulls, TransferBlocks
}
import io.megaphone.transfer.TailPulls.Pulled
import io.megaphone.transfer.TransferBlocks.Part

/** The executor's part of the runtime: it keeps replicas and blocks for others, and works on them
  * between tasks. It has no thread: the host calls it.
  *
  * Given the driver's orders, and the images that tasks queue.
  *   1. `report` says how far the replicas are. ''Lost:'' the step waits for the next report; when
  *      its patience is over, its targets read files.
  *   1. `obey` drops everything that the orders do not name, and takes over the new duties. ''Lost
  *      or late:'' orders with an older counter are ignored, so replicas and blocks are kept
  *      longer. None of them is used wrongly.
  *   1. `work` works on duties: `pullTails` pulls the tails that they need, and `prepare` makes one
  *      replica or brings it forward. ''Dies:'' the replicas are gone; the driver gives the duties
  *      to another executor.
  *   1. `standbys` makes standbys and brings them forward: see [[StandbyWork]].
  *   1. The `publisher` publishes images and tails. ''Dies:'' the blocks are gone, and targets read
  *      files.
  *
  * Copies keep to the rate in the orders: see [[io.megaphone.pace.Throttle]]. Tails do not, because
  * a replica must keep up with its source. One that lacks many gets a few for each version.
  *
  * Threads: any. One call of `prepare` at a time for a duty.
  *
  * @param recoveryOf
  *   reads a store's files; the second argument is the checkpoint's root folder, the third is
  *   called with the records that are read
  * @param pullDeadlineMs
  *   how long a pull for a replica may take if the orders do not say it for the run
  * @param warn
  *   is told what an operator of the query should know
  * @param throttle
  *   holds up who copies, if the rate asks for it
  * @param largeBinBytes
  *   how many bytes of live records make a bin large
  * @param census
  *   decides which commits tell how large each bin is
  * @param sliceBytes
  *   about how many bytes of live records a standby or a large replica gets at once
  * @param clock
  *   measures how long tasks use state
  */
final class ExecutorAgent(
    val registry: Registry,
    others: Peers,
    val blocks: TransferBlocks,
    val faults: FaultPoints,
    recoveryOf: (StoreKey, String, Array[Byte] => Unit) => Recovery,
    pullDeadlineMs: Long,
    warn: String => Unit,
    val throttle: Throttle = new Throttle(Clock.System),
    largeBinBytes: Long = ExecutorAgent.LargeBinBytes,
    val census: Census = new Census,
    sliceBytes: Long = Slice.Bytes,
    val clock: Clock = Clock.System
) {
  import ExecutorAgent._

  /** The other executors; one that is silent is not waited for again and again. */
  val peers: Peers = new ImpatientPeers(others, clock)

  private val refused = new ConcurrentHashMap[ReplicaKey, Refusal]()
  private val failing = new ConcurrentHashMap[ReplicaKey, String]() // why
  private val behind = // of replicas that lack tails: what they had turns for up to then
    new ConcurrentHashMap[ReplicaKey, StateName]()
  private val replicaRests = new BackOff[ReplicaKey](() => round.get, RestMax)
  private val published = new ConcurrentHashMap[ReplicaKey, java.lang.Long]() // by the best attempt
  private val copied = new ConcurrentHashMap[ReplicaKey, java.lang.Long]() // by the best attempt
  private val tailPulls = new TailPulls(blocks, peers)
  private val withLargeBins = ConcurrentHashMap.newKeySet[StoreKey]() // of which `warn` was told
  private val round = new AtomicLong() // of orders that were obeyed
  private val newestCounter = new AtomicLong()
  @volatile private var orders = Orders(0, Map.empty, Vector.empty)

  /** What this executor does for workers that run elsewhere. */
  val standbys: StandbyWork = new StandbyWork(
    registry,
    () => orders,
    () => round.get,
    recoveryOf,
    faults,
    warn,
    throttle,
    sliceBytes
  )

  /** What this executor brings of bins that steps on demand have left elsewhere. */
  val rests: RestWork =
    new RestWork(
      registry,
      peers,
      recoveryOf,
      () => orders,
      faults,
      throttle,
      () => round.get
    )

  /** What this executor looks at ahead of steps on demand. */
  val surveys: SurveyWork = new SurveyWork(registry)

  private val answering = new Answering(registry)

  /** Answers what executors ask about bins that a step on demand has taken from workers here. Any
    * thread.
    */
  def answer(question: Question): Answer = {
    faults.at(FaultPoints.QuestionAnswering)
    answering(question)
  }

  /** What this executor's tasks publish for others. */
  val publisher: BlockPublisher =
    new BlockPublisher(registry, peers, blocks, faults, warn, copying(_, published), isUnwanted)

  /** What other executors have sent for this one's standbys. */
  val pushed: PushedFiles =
    new PushedFiles(math.min(PushedBytesMax, registry.budget.budgetBytes / PushedShare))

  def address: ExecutorAddress = peers.address

  /** The files of a worker that runs here. Those that it writes go to its standbys as well. */
  def sent(worker: WorkerId, files: StateFiles): StateFiles =
    orders.pushes.get(worker).fold(files) { standbys =>
      SentFiles(files) { (file, bytes) =>
        standbys.foreach(peers.push(PushedFile(worker.store, file, bytes), _))
      }
    }

  /** A task brings the driver's counter. Returns whether it is newer than all before, so that the
    * host should report now.
    */
  def notice(counter: Long): Boolean =
    newestCounter.getAndUpdate(math.max(_, counter)) < counter

  def report: Report = {
    val surveyed = registry.exports.surveyed
    Report(
      address,
      Held(
        registry.holdingsCount,
        registry.replicasCount,
        peers.publishedCount,
        registry.budget.heldBytes,
        registry.budget.bytesOnDisk,
        registry.budget.budgetBytes
      ),
      registry.reached,
      refused.asScala.iterator.map { case (key, refusal) => key -> refusal.reason }.toVector,
      published.asScala.iterator.map { case (key, bytes) =>
        Copied(key, isSource = true, bytes)
      }.toVector ++
        copied.asScala.iterator.map { case (key, bytes) => Copied(key, isSource = false, bytes) } ++
        surveyed.map(s => Copied(s.key, isSource = true, s.bytes)),
      throttle.besideTasks,
      standbys.standing,
      orders.counter,
      registry.holdingsByRun,
      standbys.noRoom,
      rests.whole,
      rests.heldUp,
      registry.exportsByRun,
      failing.asScala.toVector,
      surveyed.filter(_.areAll).map(_.key)
    )
  }

  /** Obeys the orders, unless newer ones are known. Returns whether they were obeyed. */
  def obey(orders: Orders): Boolean = newestCounter.get <= orders.counter && {
    newestCounter.getAndUpdate(math.max(_, orders.counter))
    this.orders = orders
    round.incrementAndGet()
    val standing = orders.standbys.iterator.map(_.worker).toSet
    registry.exports.keep(orders.isLive(_))
    surveys.keep()
    registry.keepRuns(
      run => orders.runs.get(run).map(_.settled),
      standing,
      orders.isDraining,
      orders.takenAt(_)
    )
    registry.keepReplicas(orders.kept)
    rests.keep(orders)
    registry.measure()
    pushed.keep((store, file) => orders.runs.get(store.run).exists(isToApply(_, store, file)))
    Seq(refused, failing, behind, published, copied).foreach(
      _.keySet.removeIf(key => !orders.isLive(key))
    )
    replicaRests.keep(orders.isLive(_))
    standbys.keep(standing)
    throttle.keep(orders.runs.map { case (run, live) => run -> live.copyRate })
    withLargeBins.removeIf(store => !orders.runs.contains(store.run))
    census.keepRuns(orders.runs.contains)
    publisher.keep(orders)
    true
  }

  /** Whether a file of a worker is one that the worker's state here is to be brought forward by.
    * State that is too old for that is made anew.
    */
  private def isToApply(run: LiveRun, store: StoreKey, file: FileName): Boolean = {
    val version = file.name.version
    registry.holding(WorkerId(store, file.worker)).filterNot(StandbyKeeper.isEmpty) match {
      case Some(here) =>
        here.base.version < version && version + Footer.PreviousMax >= run.settled
      case None => version >= run.settled
    }
  }

  /** The duties to work on now, in order. A duty that was refused for lack of room waits until its
    * source has committed again; so does one that still lacks tails, unless copies are free. One
    * that failed, or whose image is not there yet, waits for some rounds of orders.
    *
    * Those that are made slice by slice come last, a slice at a time, so that images do not wait
    * for them. A run begins with the next one once all those before are whole: until then each
    * needs its tails from files.
    */
  def duties: Vector[ReplicaDuty] = {
    val due = orders.duties.filterNot { duty =>
      isRefused(duty) || replicaRests.rests(duty.key) || isFed(duty)
    }
    def grows(duty: ReplicaDuty) = registry.replica(duty.key).exists(!_.isWhole)
    def isNotBegun(duty: ReplicaDuty) =
      duty.image.isEmpty && registry.replica(duty.key).isEmpty
    val (first, inSlices) = due.partition(duty => !grows(duty) && !isNotBegun(duty))
    first ++ inSlices.groupBy(_.key.store.run).flatMap { case (run, ofRun) =>
      def waits = orders.duties.exists(d => d.key.store.run == run && grows(d) && isFed(d))
      val growing = ofRun.filter(grows)
      if (growing.nonEmpty || waits) growing else ofRun.take(1)
    }
  }

  private def isFed(duty: ReplicaDuty) =
    behind.get(duty.key) == duty.settled && !throttle.isFree(duty.key.store.run)

  /** A duty as the newest orders name it; None if they do not. */
  def newest(key: ReplicaKey): Option[ReplicaDuty] = orders.duties.find(_.key == key)

  private def isRefused(duty: ReplicaDuty) =
    Option(refused.get(duty.key)).exists(_.settled == duty.settled)

  private def versionOf(key: ReplicaKey) = registry.replica(key).map(_.base.version)

  /** Whether a replica is there with all of its bins: then it is kept up by tails, however long
    * others take to be made.
    */
  def isWhole(key: ReplicaKey): Boolean = registry.replica(key).exists(_.isWhole)

  /** Whether an image is still to be published, bins are incomplete, or a replica that has room has
    * not reached its source's newest settled version.
    */
  def isBehind: Boolean = publisher.isBehind || rests.dueRuns.nonEmpty || orders.duties.exists {
    duty =>
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
      live <- orders.runs.get(run).toVector
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
    orders.runs.get(duty.key.store.run).exists { run =>
      try {
        val replica = registry.replica(duty.key)
        val before = replica.map(r => Preparer.At(r.base.version, r.lacked.size))
        val attempted = new AtomicLong(replica.fold(0L)(_.bytesCopied))
        val copying = this.copying(duty.key, copied, attempted)
        def recovery(read: Array[Byte] => Unit) =
          recoveryOf(duty.key.store, run.checkpointRoot, read)
        faults.at(FaultPoints.TargetPulling)
        val preparer = new Preparer(
          registry,
          recovery(Recovery.Unchecked),
          recovery(records => copying(records.length.toLong)),
          blocks,
          peers,
          deadlineOf(run),
          copying,
          () => throttle.isFree(duty.key.store.run),
          sliceBytes
        )
        val lastTurn = Option(behind.get(duty.key)).filter(_ => replica.isDefined)
        val newVersions = lastTurn.fold(1L)(duty.settled.version - _.version)
        preparer(duty, pulled, math.max(1, newVersions)) match {
          case at @ Preparer.At(version, binsLacking) =>
            registry.replica(duty.key).foreach(_.copied(attempted.get))
            replicaRests.succeeded(duty.key)
            failing.remove(duty.key)
            refused.remove(duty.key)
            hadTurn(duty, at)
            val isThere = version >= duty.settled.version
            if (isThere && binsLacking == 0) faults.at(FaultPoints.TargetPrepared)
            before.forall(b => binsLacking < b.binsLacking || isThere && b.version < version)
          case Preparer.Waiting =>
            replicaRests.rest(duty.key, WaitingRest)
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
    turn.fold(behind.remove(duty.key))(behind.put(duty.key, _))
    ()
  }

  private def failed(duty: ReplicaDuty, reason: String): Unit = {
    val count = replicaRests.failed(duty.key)
    if (count >= BackOff.FailuresTold) failing.put(duty.key, BackOff.lineOf(reason))
    if (count == BackOff.FailuresTold)
      warn(
        s"The replica of ${duty.key} could not be prepared $count times in a row, so its step " +
          s"may have to read files: $reason"
      )
  }

  /** What an attempt to copy for a replica calls after each piece, with its bytes.
    *
    * @param attempted
    *   what it has copied so far; several threads may read files
    */
  private def copying(
      key: ReplicaKey,
      counts: ConcurrentHashMap[ReplicaKey, java.lang.Long],
      attempted: AtomicLong = new AtomicLong
  ): Long => Unit = { bytes =>
    val all = attempted.addAndGet(bytes)
    counts.merge(key, all, (before, now) => math.max(before, now))
    throttle.pass(key.store.run, bytes)
  }

  /** Whether nobody wants a block any more. */
  private def isUnwanted(block: BlockName): Boolean = !isWanted(block.replica)

  /** Whether somebody may still want what is made for a step. Orders that are older than the task
    * that queued it do not know it yet.
    */
  def isWanted(key: ReplicaKey): Boolean = {
    val current = orders
    current.counter < newestCounter.get || current.isLive(key)
  }

  /** Keeps a holding within its share of the memory. Called after the worker's commit, with its
    * lease. If it cannot be spilled, standbys give way. Throws SpillException.
    */
  def keepWithin(holding: Holding): Unit =
    try registry.keepWithin(holding)
    catch {
      case _: SpillException if registry.budget.isTight && standbys.giveWay() =>
        registry.keepWithin(holding)
    }

  /** A task has failed. If it had no room for its state, standbys give way to its next attempt. */
  def taskFailed(cause: Throwable): Unit = {
    val causes = Iterator.iterate(cause)(_.getCause).takeWhile(_ != null)
    if (causes.exists(_.isInstanceOf[SpillException])) standbys.giveWay()
    ()
  }

  /** A task is about to commit a holding. The first large bin of a store is told to `warn`. */
  def committing(store: StoreKey, holding: Holding): Unit =
    for {
      bin <- holding.touched.find(holding.here(_).liveBytes > largeBinBytes)
      if withLargeBins.add(store)
    } warn(
      s"Bin $bin of $store has ${holding.here(bin).liveBytes >> 20} MiB. A bin moves as a whole, " +
        "and is loaded by one thread. If its keys are many, start from a new checkpoint with a " +
        "larger spark.megaphone.bins."
    )
}

object ExecutorAgent {
  private val LargeBinBytes = 256L << 20
  private val PushedBytesMax = 64L << 20
  private val PushedShare = 16 // of the budget for state

  /** Rounds of orders that a failed duty rests at most: half a minute, at ten rounds a second. */
  private val RestMax = 300L

  /** Rounds of orders after which a block that was not there is asked for again. */
  private val WaitingRest = 3L

  /** A replica had no room when its source was at the name `settled`. */
  private final case class Refusal(settled: StateName, reason: String)
}
