// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{
  Callable, ConcurrentHashMap, ExecutionException, Executors, Future, ThreadFactory
}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkEnv
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{BlockStore, SparkPrivate}

import io.megaphone.checkpoint.{Parallel, Recovery, StateFiles}
import io.megaphone.format.{ReplicaKey, StateName, StoreKey}
import io.megaphone.format.ExecutorAddress
import io.megaphone.log.memory.{HeapBudget, SpillException, SpillFiles}
import io.megaphone.runtime.{Held, Orders, Report}
import io.megaphone.runtime.Message
import io.megaphone.spark.checkpoint.{HadoopStateFiles, Lz4}
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.wire.FaultPoints
import io.megaphone.spark.wire.MessageBytes
import io.megaphone.state.{Holding, Registry}
import io.megaphone.transfer.{BlockName, Preparer, ReplicaDuty, TransferBlocks}

/** What one executor keeps and does beside its tasks: the registry of all its state, the blocks it
  * publishes, the copies it prepares.
  *
  * One thread reports to the driver, every second, at once when a task brings news, and several
  * times a second while there are duties; it then does what the orders say. Another prepares
  * copies, one after the other: bounded bandwidth, and never in the way of a batch. When the orders
  * no longer name the step whose copy is being prepared, because its plan was cancelled or its
  * query has stopped, that copy is given up at once, however slow its source is.
  */
final class ExecutorHost(context: PluginContext, env: SparkEnv) extends Logging {
  import ExecutorHost._

  /** The heap that this executor's state may take. Spark's memory manager lends to tasks, and what
    * is here outlives them: it is no one's to take back.
    */
  val budget: HeapBudget = newBudget()
  private lazy val overflow = new SpillFiles(SparkPrivate.localFolders(env))

  /** A budget of its own: what a reader of the state loads is no matter of running queries. */
  def newBudget(): HeapBudget = new HeapBudget(
    MegaphoneConf.MemoryBudget.read(context.conf.getOption).bytesOf(Runtime.getRuntime.maxMemory),
    overflow
  )
  val registry = new Registry(budget = budget)
  private val pulls = Executors.newFixedThreadPool(PullThreads, daemon("megaphone-pull"))
  private val recoverers = Executors.newFixedThreadPool(CoresCount, daemon("megaphone-recover"))
  private val publisher = Executors.newSingleThreadExecutor(daemon("megaphone-publish"))
  private val copier = Executors.newSingleThreadExecutor(daemon("megaphone-prepare"))
  private var copying: Option[Future[_]] = None // of the reporting thread
  @volatile private var copyingStep: Option[String] = None
  private val blocks = new BlockStore(env)
  val peers = new BlockPeers(blocks, pulls)
  val handOver = new TransferBlocks(Lz4.All, budget)

  /** For recoveries that a batch waits for: as many at once as the executor has cores. */
  val together: Parallel = new Parallel {
    override def width: Int = CoresCount
    override def apply[A](pieces: Seq[() => A]): Seq[A] =
      if (pieces.size < 2) Parallel.Sequential(pieces)
      else
        try
          recoverers
            .invokeAll(pieces.map(p => (() => p()): Callable[A]).asJava)
            .asScala
            .map(_.get)
            .toSeq
        catch { case e: ExecutionException => throw e.getCause }
  }
  private val files = new ConcurrentHashMap[StoreKey, StateFiles]()
  private val ready = new ConcurrentHashMap[ReplicaKey, java.lang.Long]()
  private val refused = new ConcurrentHashMap[ReplicaKey, Refusal]()
  private val newestCounter = new AtomicLong()
  private val monitor = new Object
  private lazy val hadoopConf = {
    val conf = SparkPrivate.hadoopConf(context.conf)
    context.conf.getOption(FileManagerKey).foreach(conf.set(FileManagerKey, _))
    conf
  }
  @volatile private var isStopped = false
  @volatile private var hasDuties = false
  private var isAwake = false

  private val reporter = new Thread(() => reportUntilStopped(), "megaphone-report")
  reporter.setDaemon(true)

  def address: ExecutorAddress = blocks.address
  def start(): Unit = reporter.start()

  def stop(): Unit = {
    isStopped = true
    wake()
    Seq(pulls, recoverers, publisher, copier).foreach(_.shutdownNow())
  }

  /** The files of a store, remembered so that copies can be prepared without a provider. */
  def filesOf(key: StoreKey, operatorFolder: Path, hadoopConf: Configuration): StateFiles =
    files.computeIfAbsent(key, _ => new HadoopStateFiles(operatorFolder, key.store, hadoopConf))

  /** A task brings news: its counter is newer than what is known. */
  def notice(counter: Long): Unit =
    if (newestCounter.getAndUpdate(math.max(_, counter)) < counter) wake()

  /** After a worker's commit, by the holder of its lease. The commit stands, whatever comes of it:
    * a batch that needs the room will say what is missing.
    */
  def keepWithin(holding: Holding): Unit =
    try registry.keepWithin(holding)
    catch {
      case NonFatal(e) =>
        logWarning(
          s"What state takes of the heap could not be brought within its budget: ${e.getMessage}"
        )
    }

  /** Publishes an image in the background. */
  def publish(block: BlockName, snapshot: TransferBlocks.Snapshot): Unit = {
    publisher.execute { () =>
      try {
        FaultPoints.at(FaultPoints.SourcePublishing)
        peers.publish(block, handOver.image(snapshot))
        FaultPoints.at(FaultPoints.SourcePublished)
      } catch {
        case NonFatal(e) =>
          logWarning(
            s"Block $block could not be published; its taker reads the checkpoint instead.",
            e
          )
      }
    }
  }

  /** Tells the driver something, without waiting. */
  def tell(message: Message): Unit =
    try context.send(MessageBytes.encode(message))
    catch {
      case NonFatal(e) => logInfo(s"The driver could not be told of a commit: ${e.getMessage}")
    }

  private def wake(): Unit = monitor.synchronized { isAwake = true; monitor.notifyAll() }

  private def reportUntilStopped(): Unit =
    while (!isStopped) {
      try report()
      catch {
        case _: InterruptedException => isStopped = true
        case NonFatal(e) =>
          if (!isStopped) logInfo(s"The driver could not be asked for orders: ${e.getMessage}")
      }
      monitor.synchronized {
        if (!isAwake && !isStopped) monitor.wait(if (hasDuties) BusyIntervalMs else IdleIntervalMs)
        isAwake = false
      }
    }

  private def report(): Unit = {
    val acks = ready.asScala.iterator.map { case (copy, version) =>
      copy -> version.longValue
    }.toVector
    val held = Held(registry.holdingsCount, registry.copiesCount, peers.publishedCount)
    context.ask(
      MessageBytes.encode(
        Report(
          address,
          acks,
          refused.asScala.map { case (copy, r) => copy -> r.reason }.toVector,
          held
        )
      )
    ) match {
      case bytes: Array[Byte] =>
        MessageBytes.decode(bytes) match {
          case orders: Orders if orders.counter >= newestCounter.get => obey(orders)
          case _ => () // made before what a task has told since: the next one is newer
        }
      case _ => () // the driver is about to stop
    }
  }

  private def obey(orders: Orders): Unit = {
    registry.keepRuns(run => orders.runs.get(run).map(_.settled))
    files.keySet.removeIf(k => !orders.runs.contains(k.run))
    registry.keepCopies(k => orders.steps(k.step))
    registry.measure()
    Seq(ready, refused).foreach(_.keySet.removeIf(k => !orders.steps(k.step)))
    peers.keep(b => orders.steps(b.step))
    hasDuties = orders.duties.nonEmpty
    if (copyingStep.exists(!orders.steps(_))) copying.foreach(_.cancel(true))
    if (hasDuties && copying.forall(_.isDone))
      copying = Some(copier.submit((() => prepareAll(orders)): Runnable))
  }

  private def prepareAll(orders: Orders): Unit =
    try
      orders.duties.filterNot(isHopeless).foreach { duty =>
        copyingStep = Some(duty.key.step);
        prepare(duty, orders.runs(duty.key.store.run).checkpointRoot)
      }
    finally copyingStep = None

  /** A copy for which there was no room is tried again when its source has committed: not ten times
    * a second.
    */
  private def isHopeless(duty: ReplicaDuty): Boolean =
    Option(refused.get(duty.key)).exists(_.settled == duty.settled)

  private def prepare(duty: ReplicaDuty, checkpointRoot: String): Unit =
    try {
      val store = duty.key.store
      val state = filesOf(store, new Path(s"$checkpointRoot/state/${store.operator}"), hadoopConf)
      val preparer = new Preparer(
        registry,
        new Recovery(state, Lz4.All, budget = budget),
        handOver,
        peers,
        PullDeadlineMs
      )
      FaultPoints.at(FaultPoints.TargetPulling)
      preparer(duty).foreach { version =>
        ready.put(duty.key, version); FaultPoints.at(FaultPoints.TargetPrepared)
      }
      refused.remove(duty.key)
    } catch {
      case NonFatal(e) =>
        if (e.isInstanceOf[SpillException]) {
          refused.put(duty.key, Refusal(duty.settled, e.getMessage))
          registry.measure() // what the copy had is free for batches, at once
        }
        logInfo(s"A copy for step ${duty.key.step} could not be prepared yet: ${e.getMessage}")
    }
}

object ExecutorHost {

  /** Why there was no room for a copy, when its source stood at a name. */
  private final case class Refusal(settled: StateName, reason: String)
  private val PullThreads = 8
  private val CoresCount = Runtime.getRuntime.availableProcessors
  private val BusyIntervalMs = 100L
  private val IdleIntervalMs = 1000L
  private val PullDeadlineMs = 30000L
  val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  @volatile private var instance: Option[ExecutorHost] = None

  /** The runtime of this JVM's executor; None where the plugin is not there. */
  def active: Option[ExecutorHost] = instance
  def activate(runtime: ExecutorHost): Unit = { instance = Some(runtime); runtime.start() }
  def deactivate(): Unit = { instance.foreach(_.stop()); instance = None }

  private def daemon(name: String): ThreadFactory = { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }
}
