// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{ConcurrentHashMap, Executors, Future, ThreadFactory}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkEnv
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{BlockStore, SparkPrivate}

import io.megaphone.checkpoint.{Parallel, Recovery, StateFiles}
import io.megaphone.format.StoreKey
import io.megaphone.log.memory.{HeapBudget, SpillFiles}
import io.megaphone.runtime.{ExecutorAgent, Message, Orders}
import io.megaphone.spark.checkpoint.{HadoopStateFiles, Lz4}
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.wire.{MessageBytes, ShippedFaultPoints}
import io.megaphone.state.{Holding, Registry}
import io.megaphone.transfer.{ReplicaDuty, TransferBlocks}

/** Spark's host of one [[io.megaphone.runtime.ExecutorAgent]]: its threads, its memory and its
  * connection to the driver.
  *
  *   1. One thread reports to the driver: every second, ten times a second while there are duties,
  *      and at once when a task brings news. Then the agent obeys the orders that come back.
  *   1. One thread prepares replicas, one after the other, so that the bandwidth is bounded and no
  *      batch waits. If the orders no longer name a step, the preparation for it is cancelled.
  *   1. One thread publishes images.
  *
  * Threads: any.
  */
final class ExecutorHost(context: PluginContext, env: SparkEnv) extends Logging {
  import ExecutorHost._

  private lazy val spillFiles = new SpillFiles(SparkPrivate.localFolders(env))

  /** The heap that this executor's state may take. Not taken from Spark's memory manager: that
    * lends memory to tasks and reclaims it, and this state outlives every task.
    */
  val budget: HeapBudget = newBudget()

  /** A separate budget for readers, so that reading state never evicts a running query's state. */
  def newBudget(): HeapBudget = {
    val share = MegaphoneConf.MemoryBudget.read(context.conf.getOption)
    new HeapBudget(share.bytesOf(Runtime.getRuntime.maxMemory), spillFiles)
  }

  private val pulls = Executors.newFixedThreadPool(PullThreads, daemon("megaphone-pull"))
  private val recoverers = Executors.newFixedThreadPool(CoresCount, daemon("megaphone-recover"))
  private val removers = Executors.newCachedThreadPool(daemon("megaphone-remove"))
  private val publisher = Executors.newSingleThreadExecutor(daemon("megaphone-publish"))
  private val copier = Executors.newSingleThreadExecutor(daemon("megaphone-prepare"))
  private var copying: Option[Future[_]] = None // used by the reporting thread only
  @volatile private var copied: Option[ReplicaDuty] = None
  private val files = new ConcurrentHashMap[StoreKey, StateFiles]()
  private val monitor = new Object
  private lazy val hadoopConf = {
    val conf = SparkPrivate.hadoopConf(context.conf)
    context.conf.getOption(FileManagerKey).foreach(conf.set(FileManagerKey, _))
    conf
  }
  @volatile private var isStopped = false
  private var isAwake = false

  /** Runs the pieces of a recovery that a batch waits for, one per core at the same time. */
  val parallel: Parallel = new Parallel.OnThreads(recoverers, CoresCount)

  val agent: ExecutorAgent = {
    val faults = ShippedFaultPoints.instance
    new ExecutorAgent(
      new Registry(budget = budget),
      new BlockPeers(new BlockStore(env), pulls, removers, faults),
      new TransferBlocks(Lz4.All, budget),
      faults,
      (store, root) => {
        val folder = new Path(s"$root/state/${store.id.operator}")
        new Recovery(filesOf(store, folder, hadoopConf), Lz4.All, budget = budget)
      },
      MegaphoneConf.ImageDeadlineMs.read(context.conf.getOption),
      text => logWarning(text)
    )
  }

  private val reporter = new Thread(() => reportUntilStopped(), "megaphone-report")
  reporter.setDaemon(true)

  def start(): Unit = reporter.start()

  def stop(): Unit = {
    isStopped = true
    wake()
    Seq(pulls, recoverers, removers, publisher, copier).foreach(_.shutdownNow())
  }

  /** The files of a store, remembered so that replicas can be prepared without a provider. */
  def filesOf(key: StoreKey, operatorFolder: Path, hadoopConf: Configuration): StateFiles =
    files.computeIfAbsent(key, _ => new HadoopStateFiles(operatorFolder, key.id.store, hadoopConf))

  /** A task brings the driver's counter. */
  def notice(counter: Long): Unit = if (agent.notice(counter)) wake()

  /** Publishes, in the background, the images that tasks have queued. */
  def publishQueued(): Unit = publisher.execute { () =>
    try while (agent.publishNext()) {}
    catch {
      case e: Throwable if !isStopped => // also OutOfMemoryError: without the image, files serve
        logWarning("An image could not be published. Its target reads the checkpoint instead.", e)
        publishQueued()
    }
  }

  /** Spills what the holding has beyond its share of the budget. The holder of the lease calls it
    * after a commit. A failure does not undo the commit: the batch that needs the memory fails.
    */
  def keepWithin(holding: Holding): Unit =
    try agent.registry.keepWithin(holding)
    catch {
      case NonFatal(e) =>
        logWarning(s"State beyond its memory budget could not be spilled: ${e.getMessage}")
    }

  /** Sends the driver a message. Does not wait, and does not fail: the driver can do without. */
  def tell(message: Message): Unit =
    try context.send(MessageBytes.encode(message))
    catch {
      case NonFatal(e) => logInfo(s"A commit could not be reported to the driver: ${e.getMessage}")
    }

  private def wake(): Unit = monitor.synchronized {
    isAwake = true
    monitor.notifyAll()
  }

  private def reportUntilStopped(): Unit =
    while (!isStopped) {
      try report()
      catch {
        case _: InterruptedException => isStopped = true
        case NonFatal(e) =>
          if (!isStopped) logInfo(s"The driver could not be asked for orders: ${e.getMessage}")
      }
      monitor.synchronized {
        if (!isAwake && !isStopped)
          monitor.wait(if (agent.hasDuties) BusyIntervalMs else IdleIntervalMs)
        isAwake = false
      }
    }

  private def report(): Unit = context.ask(MessageBytes.encode(agent.report)) match {
    case bytes: Array[Byte] =>
      MessageBytes.decode(bytes) match {
        case orders: Orders => if (agent.obey(orders)) follow(orders)
        case _ => ()
      }
    case _ => () // the driver is about to stop
  }

  private def follow(orders: Orders): Unit = {
    files.keySet.removeIf(key => !orders.runs.contains(key.run))
    if (copied.exists(!agent.isNamed(_))) copying.foreach(_.cancel(true))
    if (agent.hasDuties && copying.forall(_.isDone))
      copying = Some(copier.submit((() => prepareAll()): Runnable))
  }

  private def prepareAll(): Unit =
    try
      agent.duties.foreach { duty =>
        copied = Some(duty)
        if (agent.isNamed(duty)) prepare(duty) // orders may have come since the list was made
      }
    finally copied = None

  /** A failure, even for lack of heap, ends nothing: a step can do without the replica. */
  private def prepare(duty: ReplicaDuty): Unit =
    try agent.prepare(duty)
    catch {
      case e: Throwable if !isStopped =>
        logInfo(s"The replica of ${duty.key} could not be prepared yet: $e")
    }
}

object ExecutorHost {
  private val PullThreads = 8
  private val CoresCount = Runtime.getRuntime.availableProcessors
  private val BusyIntervalMs = 100L
  private val IdleIntervalMs = 1000L
  val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  @volatile private var instance: Option[ExecutorHost] = None

  /** The host in this JVM; None if the executor has no plugin. */
  def active: Option[ExecutorHost] = instance

  /** Makes a host this JVM's, and starts it. */
  def activate(host: ExecutorHost): Unit = {
    instance = Some(host)
    host.start()
  }

  /** Stops this JVM's host. Called twice: the second call does nothing. */
  def deactivate(): Unit = {
    instance.foreach(_.stop())
    instance = None
  }

  private def daemon(name: String): ThreadFactory = { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }
}
