// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{
  ConcurrentHashMap, Executors, LinkedBlockingQueue, ThreadPoolExecutor, TimeUnit
}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.{SparkConf, SparkEnv, TaskContext}
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{BlockStore, SparkPrivate}

import io.megaphone.checkpoint.{Parallel, Recovery, StateFiles}
import io.megaphone.format.StoreKey
import io.megaphone.log.memory.{HeapBudget, SpillFiles}
import io.megaphone.runtime.{
  DutyHost, ExecutorAgent, FileSettings, FileSettingsAsked, Message, Orders
}
import io.megaphone.spark.checkpoint.{HadoopSettings, HadoopStateFiles, Lz4}
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.wire.{MessageBytes, PeerBytes, ShippedFaultPoints}
import io.megaphone.state.{Holding, Registry, ReplicaKey}
import io.megaphone.transfer.TransferBlocks

/** Spark's host of one [[io.megaphone.runtime.ExecutorAgent]]: its threads, its memory and its
  * connection to the driver.
  *
  *   1. One thread reports to the driver: every second, ten times a second while a replica is not
  *      ready or an image is not published, and at once when a task brings news or replicas have
  *      come forward. Then the agent obeys the orders that come back.
  *   1. For each run with duties, one thread makes replicas, at the rate of the run, and another
  *      brings forward those that are made, so that they keep up meanwhile. If the orders no longer
  *      name a step, the work for it is cancelled.
  *   1. For each run that has images to publish, one thread does; for each run that has standbys to
  *      make, another, and one more for those to bring forward. Surveys have a thread for every two
  *      cores.
  *
  * Threads: any.
  */
final class ExecutorHost(context: PluginContext, env: SparkEnv) extends Logging {
  import ExecutorHost._

  private val coresCount = coresOf(env.conf, Runtime.getRuntime.availableProcessors)
  private lazy val spillFiles = new SpillFiles(SparkPrivate.localFolders(env))

  /** The heap that this executor's state may take. Not taken from Spark's memory manager: that
    * lends memory to tasks and reclaims it, and this state outlives every task.
    */
  val budget: HeapBudget = new HeapBudget(stateBytes, spillFiles)

  /** Whether a task reads and writes state on two threads at once: from Spark 4.3 on, rows for
    * Python are computed beside the task's own thread, if one asks for it (SPARK-56642).
    */
  val writesBesideTasks: Boolean = env.conf.getBoolean("spark.python.udf.pipelined.enabled", false)

  private val readers = new ByTask[Int, HeapBudget] // by partition

  /** A budget for one task that reads a partition's state from files, however many stores that has,
    * so that it never evicts a running query's state. What a task reads of another partition has
    * another: the one before is garbage by then. Outside a task, each call makes one.
    */
  def readerBudget(partition: Int): HeapBudget = {
    def made = new HeapBudget(readerBytes(stateBytes, coresCount), spillFiles)
    Option(TaskContext.get()).fold(made)(readers.getOrMake(_, partition)(made))
  }

  private def stateBytes: Long =
    MegaphoneConf.MemoryBudget.read(context.conf.getOption).bytesOf(Runtime.getRuntime.maxMemory)

  private val pulls = new PeerThreads(PullThreads)
  private val removers = pool(RemovalThreads, "megaphone-remove")
  private val answerers = pool(AnswerThreads, "megaphone-answer")
  // They run below the tasks, where the JVM tells the system so.
  private val copiers =
    Executors.newCachedThreadPool(Parallel.daemons("megaphone-copy", Thread.MIN_PRIORITY))
  private val publishing = // by run
    background[String]("An image could not be made. Who wants it reads the checkpoint.")
  private val surveying = // so many at once
    background[Int]("A survey could not be made. Who asks first waits for it.")

  // The step waits for all surveys, and tasks need the cores.
  private val surveyThreads = math.max(1, coresCount / 2)
  private val keeping = // see `keepStandbys`
    background[(String, Boolean)]("A standby could not be kept.")
  private val bringing = // by run
    background[String]("The rest of a step on demand could not be brought yet.")
  private val preparing = mutable.Map.empty[(String, Boolean), Preparing] // see `follow`
  private val atWork = ConcurrentHashMap.newKeySet[ReplicaKey]()
  private val files = // by store, and whether tasks read and write them
    new ConcurrentHashMap[(StoreKey, Boolean), StateFiles]()
  private val settings = new ConcurrentHashMap[String, Configuration]() // by run
  private val monitor = new Object
  @volatile private var isStopped = false
  private var isAwake = false

  /** Runs the pieces of a recovery that a batch waits for, one per core at the same time. Each
    * recovery has threads of its own, because the files of another query may hang.
    */
  val parallel: Parallel = new Parallel.OnNewThreads(coresCount)

  private val blocks = new BlockStore(env)
  private val transport = new PeerTransport(
    env,
    MegaphoneConf.TransferPort.read(context.conf.getOption),
    answerers,
    UnsentBytes.Max(Runtime.getRuntime.maxMemory / UnsentShare),
    PeerBytes.answer(_)(blocks.get, agent.pushed.add, agent.answer(_))
  )

  val agent: ExecutorAgent = {
    val faults = ShippedFaultPoints.instance
    new ExecutorAgent(
      new Registry(budget = budget),
      new BlockPeers(blocks, transport, pulls, removers, copiers, faults, agent.answer(_)),
      new TransferBlocks(Lz4.All, budget),
      faults,
      (store, root, read) => {
        val folder = new Path(s"$root/state/${store.id.operator}")
        val files = known(store, isForTasks = false, folder, settingsOf(store.run))
        new Recovery(files, Lz4.All, budget = budget, check = read)
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
    pulls.close()
    Seq(removers, answerers, copiers).foreach(_.shutdownNow())
    transport.close()
  }

  /** The files of a store, for tasks. Threads in the background have others: no task waits for a
    * file system that one of them connects to.
    */
  def filesOf(key: StoreKey, operatorFolder: Path, hadoopConf: Configuration): StateFiles =
    known(key, isForTasks = true, operatorFolder, hadoopConf)

  private def known(
      key: StoreKey,
      isForTasks: Boolean,
      operatorFolder: Path,
      hadoopConf: Configuration
  ): StateFiles = files.computeIfAbsent(
    (key, isForTasks),
    _ => {
      val opened = new HadoopStateFiles(operatorFolder, key.id.store, hadoopConf)
      agent.pushed.over(key, opened)
    }
  )

  /** Forgets the files of a run; they are opened again when they are asked for. */
  private[spark] def forget(run: String): Unit = {
    files.keySet.removeIf(_._1.run == run)
    settings.remove(run)
    ()
  }

  /** The configuration of the session that runs a query: it may have credentials that the
    * application has not. Asked for once a run. Throws IllegalStateException if the run is over.
    */
  private def settingsOf(run: String): Configuration = Option(settings.get(run)).getOrElse {
    val asked = context.ask(MessageBytes.encode(FileSettingsAsked(run))) match {
      case bytes: Array[Byte] => MessageBytes.decode(bytes)
      case _ => FileSettings(None) // the driver is about to stop
    }
    asked match {
      case FileSettings(Some(bytes)) =>
        val known = HadoopSettings.decode(bytes)
        settings.put(run, known)
        known
      case _ => throw new IllegalStateException(s"The driver does not know run $run any more.")
    }
  }

  /** A task brings the driver's counter. */
  def notice(counter: Long): Unit = if (agent.notice(counter)) wake()

  /** Makes, in the background, the images that a run's tasks have queued, and surveys. */
  def publishQueued(run: String): Unit = {
    survey()
    publishing(run, agent.publisher.hasQueued(run)) {
      while (agent.publisher.publishNext(_ == run)) {}
    }
  }

  /** Makes surveys in the background, as long as some are wanted. */
  private def survey(): Unit = {
    def wanted = agent.surveys.wantedCount(agent.isWanted)
    (0 until math.min(wanted, surveyThreads)).foreach { i =>
      surveying(i, wanted > 0) {
        if (agent.surveys.next(agent.isWanted)) {
          while (agent.surveys.next(agent.isWanted)) {}
          wake() // their step waits for the news
        }
      }
    }
  }

  /** Spills what the holding has beyond its share of the budget. The holder of the lease calls it
    * after a commit. A failure does not undo the commit: the batch that needs the memory fails.
    */
  def keepWithin(holding: Holding): Unit =
    try agent.keepWithin(holding)
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

  private def reportUntilStopped(): Unit = {
    var isBehind = false
    while (!isStopped) {
      try {
        report()
        isBehind = agent.isBehind
      } catch {
        case _: InterruptedException => isStopped = true
        case e: Throwable => // without this thread the executor would keep everything for ever
          if (!isStopped) logInfo(s"The driver could not be asked for orders: $e")
      }
      monitor.synchronized {
        if (!isAwake && !isStopped)
          monitor.wait(if (isBehind) BusyIntervalMs else IdleIntervalMs)
        isAwake = false
      }
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
    (files.keySet.asScala.map(_._1.run) ++ settings.keySet.asScala)
      .filterNot(orders.runs.contains)
      .foreach(forget)
    preparing.values.foreach(_.cancelIfNotDue())
    preparing.filterInPlace((_, one) => !one.isDone)
    agent.replicas.duties
      .groupBy(duty => (duty.key.store.run, agent.replicas.isWhole(duty.key)))
      .foreach { case (work, duties) =>
        preparing.getOrElseUpdate(work, new Preparing(duties.map(_.key)))
      }
    for (run <- orders.standbys.iterator.map(_.worker.store.run).toSet[String])
      Seq(true, false).foreach(keepStandbys(run, _))
    agent.rests.dueRuns.foreach(bringRest)
    survey()
  }

  private def bringRest(run: String): Unit = bringing(run)(if (agent.rests.bringAll(run)) wake())

  private def keepStandbys(run: String, areWhole: Boolean): Unit =
    if (agent.standbys.due(run, areWhole).nonEmpty)
      keeping((run, areWhole))(if (agent.standbys.keepAll(run, areWhole)) wake())

  /** After any failure files serve, also after an OutOfMemoryError: it is logged. */
  private def background[K](failed: String) =
    new KeyedWork[K](copiers, e => if (!isStopped) logWarning(failed, e))

  /** Duties that one thread works on, one after the other. */
  private final class Preparing(keys: Vector[ReplicaKey]) extends DutyHost {
    private val own = mutable.Set.empty[ReplicaKey] // of the thread
    @volatile private var current = Vector.empty[ReplicaKey]
    private val future = copiers.submit((() => run()): Runnable)

    def isDone: Boolean = future.isDone
    def cancelIfNotDue(): Unit = {
      val isDue = current.isEmpty || current.exists(agent.replicas.newest(_).isDefined)
      if (!isDue) { future.cancel(true); () }
    }

    private def run(): Unit =
      try {
        own ++= keys.filter(atWork.add)
        current = keys.filter(own)
        if (agent.replicas.work(current, this)) wake()
      } finally {
        current = Vector.empty
        own.toVector.foreach(ends)
      }

    override def begins(key: ReplicaKey): Unit = current = Vector(key)
    override def ends(key: ReplicaKey): Unit = if (own.remove(key)) {
      atWork.remove(key)
      current = own.toVector // it may wait for their tails now
    }

    /** Even for lack of heap the work on the others goes on. */
    override def failed(replicas: Vector[ReplicaKey], cause: Throwable): Unit = {
      if (isStopped) throw cause
      val text = s"Replicas could not be prepared yet: ${replicas.mkString(", ")}: $cause"
      cause match {
        case _: Error => logWarning(text, cause) // its stack tells what needs the heap
        case _ => logInfo(text)
      }
    }
  }
}

object ExecutorHost {
  private val PullThreads = 8 // for each other executor, which answers fewer at once
  private val RemovalThreads = 8
  private val AnswerThreads = 4
  private val UnsentShare = 16 // of the heap, for answers that slow executors have not taken yet
  private val ReaderBytesMin = 16L << 20
  private val BusyIntervalMs = 100L
  private val IdleIntervalMs = 1000L
  val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"

  /** Cores of an executor: as many as run tasks. The machine may have more processors. */
  private[executor] def coresOf(conf: SparkConf, processors: Int): Int =
    math.max(1, math.min(processors, conf.getInt("spark.executor.cores", processors)))

  /** Heap bytes of one reader: as many readers as there are cores have a quarter of the state's
    * budget together, unless that is very little.
    */
  private[executor] def readerBytes(stateBytes: Long, cores: Int): Long =
    math.max(ReaderBytesMin, stateBytes / 4 / cores)

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

  /** A pool whose idle threads end. */
  private[executor] def pool(threads: Int, name: String): ThreadPoolExecutor = {
    val made = new ThreadPoolExecutor(
      threads,
      threads,
      IdleIntervalMs,
      TimeUnit.MILLISECONDS,
      new LinkedBlockingQueue[Runnable],
      Parallel.daemons(name)
    )
    made.allowCoreThreadTimeOut(true)
    made
  }
}
