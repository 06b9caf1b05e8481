// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import io.megaphone.checkpoint.{Recovery, StateFiles}
import io.megaphone.format.{ExecutorAddress, FileName, Footer, StoreKey, WorkerId}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.{Clock, Throttle}
import io.megaphone.state.{Holding, Registry, ReplicaKey}
import io.megaphone.transfer.{
  Answer, Answering, BlockName, Peers, Preparer, PushedFile, PushedFiles, Question, SentFiles,
  Slice, StandbyKeeper, TransferBlocks
}

/** The executor's part of the runtime: it keeps replicas and blocks for others, and works on them
  * between tasks. It has no thread: the host calls it.
  *
  * Given the driver's orders, and the images that tasks queue.
  *   1. `report` says how far the replicas are. ''Lost:'' the step waits for the next report; when
  *      its patience is over, its targets read files.
  *   1. `obey` drops everything that the orders do not name, and takes over the new duties. ''Lost
  *      or late:'' orders with an older counter are ignored, so replicas and blocks are kept
  *      longer. None of them is used wrongly.
  *   1. `replicas` makes replicas and brings them forward: see [[ReplicaWork]].
  *   1. `standbys` makes standbys and brings them forward: see [[StandbyWork]].
  *   1. The `publisher` publishes images and tails. ''Dies:'' the blocks are gone, and targets read
  *      files.
  *
  * Copies keep to the rate in the orders: see [[io.megaphone.pace.Throttle]].
  *
  * Threads: any.
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

  private val published = new CopyCounts(throttle)
  private val withLargeBins = ConcurrentHashMap.newKeySet[StoreKey]() // of which `warn` was told
  private val round = new AtomicLong() // of orders that were obeyed
  private val newestCounter = new AtomicLong()
  @volatile private var orders = Orders(0, Map.empty, Vector.empty)

  /** The replicas that this executor makes for steps to come. */
  val replicas: ReplicaWork = new ReplicaWork(
    registry,
    () => orders,
    () => round.get,
    recoveryOf,
    blocks,
    peers,
    pullDeadlineMs,
    faults,
    warn,
    throttle,
    sliceBytes
  )

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
    new BlockPublisher(registry, peers, blocks, faults, warn, published.counting(_), isUnwanted)

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
      replicas.noRoom,
      published.told.map { case (key, bytes) => Copied(key, isSource = true, bytes) } ++
        replicas.copied.map { case (key, bytes) => Copied(key, isSource = false, bytes) } ++
        surveyed.map(s => Copied(s.key, isSource = true, s.bytes)),
      throttle.besideTasks,
      standbys.standing,
      orders.counter,
      registry.holdingsByRun,
      standbys.noRoom,
      rests.whole,
      rests.heldUp,
      registry.exportsByRun,
      replicas.heldUp,
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
    replicas.keep(orders)
    rests.keep(orders)
    registry.measure()
    pushed.keep((store, file) => orders.runs.get(store.run).exists(isToApply(_, store, file)))
    published.keep(orders.isLive(_))
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

  /** Whether an image is still to be published, bins are incomplete, or a replica is not ready. */
  def isBehind: Boolean =
    publisher.isBehind || rests.dueRuns.nonEmpty || replicas.areBehind

  /** Whether nobody wants an image any more, or no tails lead on from it. */
  private def isUnwanted(image: BlockName): Boolean = !isWanted(image.replica) ||
    orders.runs.get(image.key.run).exists(run => !Preparer.tailsLeadOn(image.name, run.settled))

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
}
