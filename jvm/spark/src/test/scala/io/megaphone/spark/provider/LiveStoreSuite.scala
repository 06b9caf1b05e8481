// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.concurrent.CountDownLatch

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.megaphone.{StoreTask, TaskStores}
import org.apache.spark.sql.types.{LongType, StructType}

import io.megaphone.BinnedStateStoreProvider
import io.megaphone.format.{StoreId, WorkerId}
import io.megaphone.plan.RoutingTable
import io.megaphone.spark.conf.ConfEntry
import io.megaphone.spark.executor.{ExecutorHost, TaskAssignments}
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.provider.families.ColumnFamilies
import io.megaphone.spark.query.PluginSession
import io.megaphone.state.Attempt

/** A task's state when the task ends. */
final class LiveStoreSuite extends PluginSession {
  private val schema = new StructType().add("n", LongType)
  private val toRow = UnsafeProjection.create(schema)
  private def row(n: Long): UnsafeRow = toRow(InternalRow(n)).copy()

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

  test("A task whose store cannot be made gives its state back at once.") {
    val (run, host) = ("run", ExecutorHost.active.get)
    val task = new StoreTask(run, 0, RoutingTable.roundRobin(8, 1), Nil)
    val worker = WorkerId(StoreId(0, "default").in(run), 0)
    val path = new Path(folder("store").toString)
    task.begin(0)
    try {
      val (assignment, tables) = TaskAssignments.get(run, 0).get
      val files = host.filesOf(worker.store, path, new Configuration)
      val failed = intercept[UnsupportedOperationException] {
        LiveStore.open(host, worker, 0, assignment, tables, files, NoFamilies)
      }
      assert(failed.getMessage == "no families")
      val other = new Attempt(Long.MaxValue, () => true)
      host.agent.registry.lease(worker, 8, other, waitMs = 0).end() // it does not wait
    } finally task.end()
  }

  private object NoFamilies extends StoreContext {
    override def hasCheckpointIds: Boolean = false
    override def baseId: Option[String] = None
    override def takeFamilies(binsCount: Int): ColumnFamilies =
      throw new UnsupportedOperationException("no families")
    override def giveBack(families: ColumnFamilies): Unit = ()
    override def reportCommit(newVersion: Long): Unit = ()
    override def checkLoaded(records: Array[Byte]): Unit = ()
    override def conf[A](entry: ConfEntry[A]): A = entry.read(_ => None)
  }

  private def bytesRead(store: StateStore): Long = store.metrics.customMetrics.collectFirst {
    case (metric, value) if metric.name == OperatorMetrics.BytesIn.name => value
  }.get
}
