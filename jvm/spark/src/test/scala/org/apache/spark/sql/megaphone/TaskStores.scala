// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.megaphone.plan.RoutingTable

/** One state store of a provider, opened as the tasks of a query's batches would open it, one after
  * the other. One thread.
  *
  * @param families
  *   the column families that the query's plan log would know
  */
final class TaskStores(
    session: SparkSession,
    provider: Class[_],
    keys: StructType,
    values: StructType,
    families: Seq[String]
) {
  session.sessionState.streamingQueryManager // brings the coordinator that stores report to
  val folder: java.nio.file.Path = java.nio.file.Files.createTempDirectory("megaphone-stores")
  private var run = new Run

  /** One run of the query: nothing but files goes from one to the next. */
  private final class Run {
    private val runId = UUID.randomUUID()
    val id: StateStoreProviderId =
      StateStoreProviderId(StateStoreId(s"file:$folder/state", 0, 0), runId)
    val stores: StateStoreProvider = {
      val conf = session.sessionState.conf.clone()
      conf.setConfString("spark.sql.streaming.stateStore.providerClass", provider.getName)
      val hadoopConf = session.sessionState.newHadoopConf()
      hadoopConf.set(StreamExecution.RUN_ID_KEY, runId.toString)
      val spec = NoPrefixKeyStateEncoderSpec(keys)
      StateStoreProvider.createAndInit(
        id,
        keys,
        values,
        spec,
        useColumnFamilies = true,
        new StateStoreConf(conf),
        hadoopConf,
        false,
        None
      )
    }
    val task = new StoreTask(runId.toString, 0, RoutingTable.roundRobin(8, 1), families)
  }

  /** Opens a version in a task of its own; the one before has ended. */
  def open(version: Long, isForced: Boolean = false, isEmpty: Boolean = false): StateStore = {
    run.task.begin(version);
    run.stores.getStore(version, None, forceSnapshotOnCommit = isForced, loadEmpty = isEmpty)
  }

  /** Opens a version in a task of its own, by another thread than the task's. */
  def openBy(version: Long)(other: (() => StateStore) => StateStore): StateStore = {
    run.task.begin(version)
    val task = TaskContext.get()
    other { () =>
      TaskContext.setTaskContext(task)
      try run.stores.getStore(version, None)
      finally TaskContext.unset()
    }
  }

  /** Opens a version in a task of its own, whose thread has a handle to read by. */
  def openFrom(read: ReadStateStore, version: Long): StateStore = {
    run.task.begin(version)
    run.stores.upgradeReadStoreToWriteStore(read, version, None)
  }

  /** Opens a version once more in the task that is at work. */
  def openAgain(version: Long): StateStore = run.stores.getStore(version, None)

  /** Opens a version for a handle that only reads, in a task of its own. Ends the task before. */
  def openToRead(version: Long): ReadStateStore = {
    run.task.begin(version); run.stores.getReadStore(version, None)
  }

  /** What Spark does from time to time, outside any task. */
  def maintain(): Unit = { run.task.end(); run.stores.doMaintenance() }

  /** The newest snapshot that Spark's coordinator was told of. */
  def reported: Option[Any] = {
    val coordinator = StateStoreCoordinatorRef.forExecutor(SparkEnv.get)
    val method = coordinator.getClass.getMethod(
      "getLatestSnapshotVersionForTesting",
      run.id.getClass
    ) // Spark's own package may call it
    method.invoke(coordinator, run.id).asInstanceOf[Option[Any]]
  }

  /** Goes on in a new run, from files. */
  def restart(): Unit = { close(); run = new Run }

  def close(): Unit = { run.task.end(); run.stores.close() }
}
