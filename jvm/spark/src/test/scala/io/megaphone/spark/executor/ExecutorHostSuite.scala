// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.io.IOException
import java.util.{Collections, Map => JMap}
import java.util.concurrent.{
  CountDownLatch, ExecutionException, Executors, LinkedBlockingQueue, TimeUnit
}
import java.util.concurrent.atomic.AtomicInteger

import scala.annotation.tailrec

import com.codahale.metrics.MetricRegistry
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.{SparkConf, SparkEnv, SparkException}
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.resource.ResourceInformation
import org.apache.spark.sql.megaphone.StoreTask
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.errors.MissingFileException
import io.megaphone.format.{Chain, FileName, StateName, StoreId}
import io.megaphone.pace.CopyRate
import io.megaphone.plan.{RoutingTable, StepId}
import io.megaphone.runtime.{FileSettings, FileSettingsAsked, LiveRun, Message, Orders, Report}
import io.megaphone.spark.checkpoint.{HadoopSettings, ProbeFileSystem}
import io.megaphone.spark.query.PluginSession
import io.megaphone.spark.wire.MessageBytes
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{BlockKind, BlockName, ReplicaDuty}
import io.megaphone.transfer.TransferBlocks.{BinSnapshot, Snapshot}

/** What the queries of an executor share does not let one hold up another, and its background
  * threads outlive fatal errors.
  */
final class ExecutorHostSuite extends PluginSession {
  import ExecutorHostSuite._

  // Fewer than the machine has processors.
  override protected def settings: Map[String, String] = Map("spark.executor.cores" -> "1")

  private val step = StepId("plan", 0, 0)
  private val name = StateName(1, "")

  private def keyOf(target: Int) =
    ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, target, step)

  /** A host beside the session's, whose driver answers by `answer`, or not at all if that returns
    * None.
    */
  private def withHost[A](answer: Message => Option[Message])(body: ExecutorHost => A): A = {
    val env = SparkEnv.get
    val host = new ExecutorHost(
      new PluginContext {
        override def metricRegistry: MetricRegistry = new MetricRegistry
        override def conf: SparkConf = env.conf
        override def executorID: String = env.executorId
        override def hostname: String = "localhost"
        override def resources: JMap[String, ResourceInformation] = Collections.emptyMap
        override def send(message: Object): Unit = ()
        override def ask(message: Object): Object = message match {
          case bytes: Array[Byte] =>
            answer(MessageBytes.decode(bytes)).map(MessageBytes.encode).orNull
          case other => fail(s"unexpected: $other")
        }
      },
      env
    )
    try body(host)
    finally host.stop()
  }

  private def noHeap() = throw new OutOfMemoryError("a test")

  test("An executor goes on asking for orders after a fatal error.") {
    val asked = new CountDownLatch(2)
    withHost { _ => asked.countDown(); if (asked.getCount > 0) noHeap() else None } { host =>
      host.start()
      assert(asked.await(60, TimeUnit.SECONDS))
    }
  }

  test("An executor asks for orders every second, and sooner while it is behind.") {
    val duty = ReplicaDuty(keyOf(1), Vector(0), 4, Some(StateName(-4, "")), name, 0, None, None)
    val live = Map("run" -> LiveRun("root", 1, Set(step), None))

    /** The shortest time between two reports of so many, in ms. */
    def shortestMs(duties: Vector[ReplicaDuty], reports: Int): Long = {
      val times = new LinkedBlockingQueue[Long]
      withHost {
        case _: Report => times.add(System.nanoTime); Some(Orders(1, live, duties))
        case _ => None // so the replica is never ready
      } { host =>
        host.start()
        val at = Seq.fill(reports)(times.poll(60, TimeUnit.SECONDS))
        TimeUnit.NANOSECONDS.toMillis(at.zip(at.tail).map { case (a, b) => b - a }.min)
      }
    }
    assert(shortestMs(Vector.empty, reports = 4) > 900)
    assert(shortestMs(Vector(duty), reports = 20) < 900)
  }

  test("Copies know whether a task of Spark's runs on the executor.") {
    def begun = spark.sparkContext.parallelize(Seq(1), 1)
    assert(begun.map(_ => areBesideTasks()).collect().toSeq == Seq(true))
    eventually(timeout(60.seconds))(assert(!areBesideTasks(), "a task has ended"))
    val failed = intercept[SparkException](begun.foreach(_ => throw new IOException("a test")))
    assert(failed.getMessage.contains("a test"))
    eventually(timeout(60.seconds))(assert(!areBesideTasks(), "a task has failed"))
  }

  test("An image for which there is no heap costs no other image, and no thread.") {
    def snapshot(records: => Unit) = {
      val bin = BinSnapshot(0, Chain.Empty, 0, (_, _) => records)
      new Snapshot(0, name, Vector(bin))
    }
    withHost(_ => None) { host =>
      for ((records, target) <- Seq(() => noHeap(), () => ()).zipWithIndex) {
        val block = BlockName(keyOf(target).store, 0, target, name, BlockKind.Image, step)
        host.agent.publisher.queueImage(block, snapshot(records()))
      }
      host.agent.notice(1) // no orders name the step yet
      host.publishQueued("run")
      eventually(timeout(60.seconds))(assert(host.agent.peers.publishedCount == 1))
      host.agent.peers.keep(_ => false)
    }
  }

  test("Who copies asks for the lowest priority.") {
    val asked = new LinkedBlockingQueue[Int]
    val bin = BinSnapshot(0, Chain.Empty, 0, (_, _) => asked.put(Thread.currentThread.getPriority))
    withHost(_ => None) { host =>
      val block = BlockName(keyOf(1).store, 0, 1, name, BlockKind.Image, step)
      host.agent.publisher.queueImage(block, new Snapshot(0, name, Vector(bin)))
      host.agent.notice(1) // no orders name the step yet
      host.publishQueued("run")
      assert(asked.poll(60, TimeUnit.SECONDS) == Thread.MIN_PRIORITY)
      host.agent.peers.keep(_ => false)
    }
  }

  test("A replica for which there is no heap does not end the work on the others.") {
    val runs = Vector("run", "other") // of one run, replicas are made one after the other
    val duties = runs.map { run =>
      val key = ReplicaKey.forStep(StoreId(0, "default").in(run), 0, 1, step)
      ReplicaDuty(key, Vector(0), 4, Some(StateName(-4, "")), name, 0, None, None)
    }
    val live = runs.map(_ -> LiveRun("root", 1, Set(step), None)).toMap
    val reports = new AtomicInteger
    val begun = new CountDownLatch(duties.size)
    withHost {
      case _: Report if reports.incrementAndGet() == 1 => Some(Orders(1, live, duties))
      case _: FileSettingsAsked => begun.countDown(); noHeap()
      case _ => None
    } { host =>
      host.start()
      assert(begun.await(60, TimeUnit.SECONDS))
    }
  }

  test("A task waits for no file system that hangs as a thread in the background connects to it.") {
    val conf = new Configuration
    conf.set("fs.probe.impl", classOf[ProbeFileSystem].getName)
    conf.set(ProbeFileSystem.NoCache, "true")
    val duty =
      ReplicaDuty(
        keyOf(1),
        Vector(0),
        4,
        Some(StateName(-4, "")),
        name,
        0,
        None,
        None,
        progressAt = -4
      )
    val hangs = ProbeFileSystem.Fault(ProbeFileSystem.Fault.ConnectHangs, "", times = 1)
    val root = s"probe:${folder("checkpoint")}"
    val live = Map("run" -> LiveRun(root, 1, Set(step), None))
    val tasks = Executors.newSingleThreadExecutor()
    ProbeFileSystem.faults = Seq(hangs)
    try
      withHost {
        case _: Report => Some(Orders(1, live, Vector(duty)))
        case _: FileSettingsAsked => Some(FileSettings(Some(HadoopSettings.encode(conf))))
        case _ => None
      } { host =>
        host.start()
        eventually(timeout(60.seconds))(assert(hangs.struck == 1))
        val task = tasks.submit { () =>
          host
            .filesOf(keyOf(1).store, new Path(s"$root/state/0"), conf)
            .open(FileName(0, name))
        }
        val e = intercept[ExecutionException](task.get(60, TimeUnit.SECONDS))
        assert(e.getCause.isInstanceOf[MissingFileException])
      }
    finally {
      ProbeFileSystem.faults = Nil
      ProbeFileSystem.released.release(hangs.struck)
      tasks.shutdown()
    }
  }

  test("A recovery has as many threads as the executor has cores, not the machine.") {
    val conf = new SparkConf(false)
    def cores = ExecutorHost.coresOf(conf, processors = 64)
    assert(cores == 64)
    conf.set("spark.executor.cores", "3")
    assert(cores == 3)
    conf.set("spark.executor.cores", "100")
    assert(cores == 64)
    withHost(_ => None)(host => assert(host.parallel.width == 1))
  }

  test("The readers of an executor have a quarter of the state's budget together.") {
    val bytes = 16L << 30
    for (cores <- Seq(1, 2, 7))
      assert(cores * ExecutorHost.readerBytes(bytes, cores) <= bytes / 4)
    val conf = SparkEnv.get.conf
    conf.set("spark.executor.cores", "2") // of one core, one reader would have it all
    try
      withHost(_ => None) { host =>
        val readers = Seq.tabulate(host.parallel.width)(host.readerBudget)
        assert(readers.forall(_ ne host.budget))
        assert(
          readers.map(_.budgetBytes).sum <= math.max(
            host.budget.budgetBytes / 4,
            readers.size * (16L << 20)
          )
        )
      }
    finally conf.set("spark.executor.cores", "1")
  }

  test("A task that reads several stores of a partition has one budget for them.") {
    withHost(_ => None) { host =>
      val tasks = new StoreTask("run", 0, RoutingTable.roundRobin(8, 1), Nil)
      try {
        tasks.begin(0)
        val first = host.readerBudget(0)
        assert((first eq host.readerBudget(0)) && (first ne host.readerBudget(1)))
        tasks.begin(1)
        assert(first ne host.readerBudget(0))
      } finally tasks.end()
      assert(host.readerBudget(0) ne host.readerBudget(0))
    }
  }

  test("A recovery from files that hang keeps no thread from another query's.") {
    val parallel = ExecutorHost.active.get.parallel
    val callers = Executors.newCachedThreadPool()
    val (areIn, goOn) = (new CountDownLatch(parallel.width), new CountDownLatch(1))
    try {
      val hanging = callers.submit { () =>
        parallel(Seq.fill(8)(() => { areIn.countDown(); goOn.await() }))
      }
      areIn.await()
      val other = callers.submit(() => parallel(Seq(() => 1, () => 2, () => 3)))
      assert(other.get(60, TimeUnit.SECONDS) == Seq(1, 2, 3))
      goOn.countDown()
      hanging.get(60, TimeUnit.SECONDS)
    } finally { goOn.countDown(); callers.shutdown() }
  }
}

private object ExecutorHostSuite {

  /** Whether what is copied now is copied beside tasks. Orders that come meanwhile have no such
    * run.
    */
  @tailrec private def areBesideTasks(): Boolean = {
    val throttle = ExecutorHost.active.get.agent.throttle
    throttle.keep(Map.empty)
    throttle.keep(Map("probe" -> CopyRate.Unlimited))
    throttle.pass("probe", 1)
    throttle.besideTasks.get("probe") match {
      case Some(bytes) => bytes > 0
      case None => areBesideTasks()
    }
  }
}
