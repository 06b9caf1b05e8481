// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.lang.reflect.{InvocationTargetException, Method, Modifier}
import java.util.UUID
import java.util.concurrent.{CountDownLatch, ExecutionException, Executors, FutureTask, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore}
import org.apache.spark.sql.megaphone.{StoreTask, TaskStores}
import org.apache.spark.sql.types.{LongType, StructType}

import io.megaphone.BinnedStateStoreProvider
import io.megaphone.errors.{DetachedLeaseException, LeaseTimeoutException, MissingBinException}
import io.megaphone.format.{Chain, StoreId, WorkerId}
import io.megaphone.log.KeyReader
import io.megaphone.plan.{RoutingTable, StepId}
import io.megaphone.spark.conf.{ConfEntry, MegaphoneConf}
import io.megaphone.spark.executor.{ExecutorHost, TaskAssignments, TaskThreads}
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.provider.families.ColumnFamilies
import io.megaphone.spark.query.PluginSession
import io.megaphone.state.{Attempt, LoadedBin, Remote, ReplicaKey}

/** A task's state when the task ends. */
final class LiveStoreSuite extends PluginSession {
  private val schema = new StructType().add("n", LongType)
  private val toRow = UnsafeProjection.create(schema)
  private def row(n: Long): UnsafeRow = toRow(InternalRow(n)).copy()

  /** On another thread. */
  private def elsewhere[A](body: => A): A = {
    val result = new FutureTask[A](() => body)
    new Thread(result).start()
    try result.get(60, TimeUnit.SECONDS)
    catch { case e: ExecutionException => throw e.getCause }
  }

  private def registry = ExecutorHost.active.get.agent.registry

  /** Opens a store of a new run, in a task, with the one worker that the run has. */
  private def openNew(stores: TaskStores): (StateStore, WorkerId) = {
    val known = registry.workers(_ => true).toSet
    val store = stores.open(0)
    (store, registry.workers(_ => true).filterNot(known).head)
  }

  private def withNewStore[A](body: (StateStore, WorkerId) => A): A = {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    try body.tupled(openNew(stores))
    finally stores.close()
  }

  test("State that another thread is still at work on is dropped with its task.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    try {
      val first = stores.open(0)
      first.put(row(1), row(1))
      first.commit()
      val killed = stores.open(1).asInstanceOf[GuardedStore]
      killed.put(row(2), row(2))
      val serving: Runnable = () => killed.guard.run(() => { isIn.countDown(); goOn.await() })
      new Thread(serving).start()
      isIn.await()
      val next = stores.open(1) // ends the task before, which does not wait for ever
      assert(bytesRead(next) > 0, "it is read from files")
      assert(next.get(row(1)).getLong(0) == 1 && next.get(row(2)) == null)
      next.put(row(3), row(3))
      next.commit()
      val last = stores.open(2)
      assert(bytesRead(last) == 0 && last.get(row(3)).getLong(0) == 3)
    } finally { goOn.countDown(); stores.close() }
  }

  test("An abort leaves records that another thread is at work on to the end of the task.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    try {
      val aborted = stores.open(0).asInstanceOf[GuardedStore]
      aborted.put(row(1), row(1))
      val serving: Runnable = () => aborted.guard.run(() => { isIn.countDown(); goOn.await() })
      new Thread(serving).start()
      isIn.await()
      aborted.abort()
      assert(aborted.get(row(1)) != null)
      goOn.countDown()
      val next = stores.open(0) // ends the task before
      assert(next.get(row(1)) == null)
    } finally { goOn.countDown(); stores.close() }
  }

  for (
    (handle, opened, callsCount) <- Seq[(String, TaskStores => ReadStateStore, Int)](
      ("writing", _.open(1), 18),
      ("reading", _.openToRead(1), 10)
    )
  )
    test(s"No call of another thread to a $handle handle reaches a task's state once it ended.") {
      val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
      try {
        val first = stores.open(0)
        first.put(row(1), row(1))
        first.commit()
        val ended = opened(stores)
        val (before, scan) = elsewhere((ended.get(row(1)).getLong(0), ended.iterator()))
        assert(before == 1)
        val begun = ended.iterator()
        stores.open(1) // ends the task before
        val calls = ended.getClass.getDeclaredMethods.toSeq.filter { m =>
          Modifier.isPublic(m.getModifiers) && !m.isSynthetic && !m.getName.contains("$") &&
          !Set("guard", "isTask").contains(m.getName)
        }
        def isRefused(call: Method): Boolean = {
          val nothing = call.getParameterTypes.map { p =>
            if (p == classOf[Boolean]) java.lang.Boolean.FALSE else null
          }
          val failed = intercept[InvocationTargetException](call.invoke(ended, nothing: _*))
          failed.getCause.isInstanceOf[IllegalStateException]
        }
        assert(calls.size >= callsCount)
        assert(elsewhere(calls.filterNot(isRefused)).map(_.getName) == Nil)
        elsewhere(assertThrows[IllegalStateException](scan.hasNext))
        elsewhere(assertThrows[IllegalStateException](begun.hasNext))
      } finally stores.close()
    }

  test("Who opens a store is not taken for the task's thread, and is refused after its end.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    val feeding = Executors.newSingleThreadExecutor() // as one that feeds a process
    def fed[A](body: () => A): A = feeding.submit(() => body()).get(60, TimeUnit.SECONDS)
    try {
      val ended = stores.openBy(0)(fed(_))
      fed(() => ended.put(row(1), row(1)))
      val next = stores.open(0) // ends the task before
      fed(() => assertThrows[IllegalStateException](ended.put(row(2), row(2))))
      assert(next.get(row(1)) == null && next.get(row(2)) == null)
    } finally { feeding.shutdown(); stores.close() }
  }

  test("All stores of a task have one guard.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    try {
      val first = stores.open(0).asInstanceOf[GuardedStore]
      first.commit()
      val again = stores.openAgain(0).asInstanceOf[GuardedStore]
      assert(again.guard eq first.guard)
      assert(stores.open(0).asInstanceOf[GuardedStore].guard ne first.guard)
    } finally stores.close()
  }

  test("A task that computes its rows again before it has committed them begins anew.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    try {
      val first = stores.open(0)
      first.put(row(1), row(1))
      val again = stores.openAgain(0)
      assert(again.get(row(1)) == null, "what was computed counts once")
      again.put(row(2), row(2))
      assertThrows[IllegalStateException](first.put(row(3), row(3)))
      assertThrows[SparkException](first.commit())
      first.abort()
      again.commit()
      val next = stores.open(1)
      assert(Seq(1L, 2L, 3L).map(n => next.get(row(n)) != null) == Seq(false, true, false))
    } finally stores.close()
  }

  test("A task is not taken for that of another application of the JVM.") {
    def context() = StoreTask.contextOf(attempt = -1)
    val (one, other) = (context(), context())
    val threads = Seq(one, other).map { task =>
      elsewhere { TaskThreads.begin(task); Thread.currentThread }
    }
    assert(Seq(one, other).map(TaskThreads.of) == threads.map(Some(_)))
    StoreTask.complete(one)
    assert(Seq(one, other).map(TaskThreads.of) == Seq(None, Some(threads.last)))
    StoreTask.complete(other)
    assert(TaskThreads.of(other).isEmpty)
  }

  test("A read handle that another task has left on the thread does not matter.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    try {
      val first = stores.open(0)
      first.put(row(1), row(1))
      first.commit()
      val left = stores.openToRead(0)
      assert(stores.openFrom(left, 1).get(row(1)).getLong(0) == 1)
    } finally stores.close()
  }

  test("A bin that a worker lacks is told with the version, the table and its worker.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    try {
      val (first, worker) = openNew(stores)
      first.put(row(1), row(1))
      val holding = registry.holding(worker).get
      val bin = holding.touched.head
      first.commit()
      val second = stores.open(1)
      assert(holding.give(holding.base, Seq(bin)).nonEmpty)
      val told = intercept[MissingBinException](second.get(row(1))).getMessage
      assert(
        told.startsWith("Worker 0 ") && told.contains(s"should have bin $bin and does not") &&
          told.contains(s"at ${holding.base}, table 0, 1 worker, which gives the bin to worker 0")
      )
    } finally stores.close()
  }

  test("Each row that is put, looked for or removed is an access of its bin.") {
    withNewStore { (store, worker) =>
      val holding = registry.holding(worker).get
      def accesses =
        holding.bins.map(bin => bin -> holding.log(bin).accesses).filter(_._2 > 0).toMap
      assert(accesses.isEmpty)
      store.put(row(1), row(1))
      val bin = holding.touched.head
      assert(accesses == Map(bin -> 1))
      store.get(row(1))
      assert(accesses == Map(bin -> 2))
      store.remove(row(1))
      assert(accesses == Map(bin -> 3))
      (2L to 20L).foreach(n => store.put(row(n), row(n)))
      assert(accesses.size > 1 && accesses.values.sum == 22)
    }
  }

  test("A scan that is to bring what is elsewhere brings it when its rows are looked at.") {
    val scan = withNewStore { (store, worker) =>
      store.put(row(1), row(1))
      val holding = registry.holding(worker).get
      val bin = holding.touched.head
      val key = ReplicaKey.forStep(worker.store, 1, 0, StepId("plan", 0, 0))
      val remote = new Remote(key, holding.base, Chain.Empty, None, keys = 0)
      holding.put(LoadedBin(bin, holding.log(bin), Chain.Empty, Some(remote)))
      val looked = store.iterator()
      assert(holding.areIncomplete, "nobody has looked")
      assert(!looked.hasNext && !holding.areIncomplete, "the files have no row")
      holding.put(LoadedBin(bin, holding.log(bin), Chain.Empty, Some(remote)))
      store.iterator()
    }
    // A thread that feeds a script looks at rows of a scan that the task's own thread has made.
    val failed = elsewhere(intercept[IllegalStateException](scan.hasNext))
    assert(failed.getMessage.endsWith("has ended."))
  }

  test("A task whose store cannot be made gives its state back at once.") {
    val worker = new OneWorker
    val task = worker.task()
    task.begin(0)
    try {
      val failed = intercept[UnsupportedOperationException](worker.open(NoFamilies))
      assert(failed.getMessage == "no families")
      val other = new Attempt(Long.MaxValue, () => true)
      registry.lease(worker.id, 8, other, waitMs = 0).end() // it does not wait
    } finally task.end()
  }

  test("Two threads of a task that open its state at once have the same.") {
    val worker = new OneWorker
    val task = worker.task()
    var other = Option.empty[FutureTask[LiveStore]]
    val opensTwice = new SomeContext {
      override def takeFamilies(binsCount: Int): ColumnFamilies = {
        if (other.isEmpty) { // nobody knows yet of the store that is made here
          other = Some(new FutureTask(() => { task.join(); worker.open(Impatient) }))
          val thread = new Thread(other.get)
          thread.start()
          while (thread.isAlive && thread.getState != Thread.State.BLOCKED) Thread.onSpinWait()
        }
        null
      }
    }
    task.begin(0)
    try assert(worker.open(opensTwice) eq other.get.get(60, TimeUnit.SECONDS))
    finally task.end()
  }

  test("A stage that runs again takes the state from the tasks of its attempt before.") {
    val worker = new OneWorker
    def onThread[A](task: StoreTask)(body: => A): A = elsewhere { task.begin(0); body }
    val (before, again, beside) = (worker.task(0), worker.task(1), worker.task(1))
    try {
      val first = onThread(before)(worker.open(Impatient))
      val second = onThread(again)(worker.open(Impatient))
      assert(second.holding ne first.holding)
      intercept[DetachedLeaseException](first.commit())
      intercept[LeaseTimeoutException](onThread(beside)(worker.open(Impatient)))
      second.commit()
    } finally Seq(before, again, beside).foreach(_.end())
  }

  /** A worker's store, without a provider. */
  private final class OneWorker {
    private val run = UUID.randomUUID.toString
    private val path = new Path(folder("store").toString)
    val id: WorkerId = WorkerId(StoreId(0, "default").in(run), 0)

    def task(stageAttempt: Int = 0): StoreTask =
      new StoreTask(run, 0, RoutingTable.roundRobin(8, 1), Nil, stageAttempt)

    def open(context: StoreContext): LiveStore = {
      val host = ExecutorHost.active.get
      val (assignment, tables) = TaskAssignments.get(run, 0).get
      val files = host.filesOf(id.store, path, new Configuration)
      LiveStore.open(host, id, 0, assignment, tables, files, context)
    }
  }

  private object NoFamilies extends SomeContext {
    override def takeFamilies(binsCount: Int): ColumnFamilies =
      throw new UnsupportedOperationException("no families")
  }

  /** Waits for no other task. */
  private object Impatient extends SomeContext {
    override def takeFamilies(binsCount: Int): ColumnFamilies = null // nobody asks for rows
    override def conf[A](entry: ConfEntry[A]): A =
      entry.read(key => Option.when(key == MegaphoneConf.LeaseTimeoutMs.key)("1"))
  }

  private abstract class SomeContext extends StoreContext {
    override def hasCheckpointIds: Boolean = false
    override def baseId: Option[String] = None
    override def keyReader(binsCount: Int): KeyReader =
      throw new UnsupportedOperationException("no keys")
    override def giveBack(families: ColumnFamilies): Unit = ()
    override def reportCommit(newVersion: Long): Unit = ()
    override def checkLoaded(records: Array[Byte]): Unit = ()
    override def conf[A](entry: ConfEntry[A]): A = entry.read(_ => None)
  }

  private def bytesRead(store: StateStore): Long = store.metrics.customMetrics.collectFirst {
    case (metric, value) if metric.name == OperatorMetrics.BytesIn.name => value
  }.get
}
