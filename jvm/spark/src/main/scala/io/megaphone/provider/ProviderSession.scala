// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.megaphone.conf.ConfEntry
import io.megaphone.control.{BatchFacts, BatchFactsHolder, PlanLog, Tables, UnsupportedQueryException}
import io.megaphone.store.{Holding, StoreKey}
import io.megaphone.transfer.ExecutorRuntime

/** What one provider instance knows of its store, and how it opens it.
  *
  *   1. The current task holds the facts of a batch of this run: the worker's state in the executor's registry.
  *   1. The checkpoint has a plan log: a reader, from files.
  *   1. Neither: in a task of a streaming batch, the plugin is missing, and the batch is refused; anything else has nothing to read.
  */
private[megaphone] final class ProviderSession(
    val id: StateStoreId,
    keySpec: KeyStateEncoderSpec,
    valueSchema: StructType,
    storeConf: StateStoreConf,
    hadoopConf: Configuration
) {
  private val keySchema = keySpec.keySchema
  private val prefixed = keySpec match {
    case _: NoPrefixKeyStateEncoderSpec => None
    case prefix: PrefixKeyScanStateEncoderSpec => Some(new PrefixedKeys(prefix, valueSchema))
    case other => throw StateStoreErrors.unsupportedOperationException(other.getClass.getSimpleName, BinnedReads.Name)
  }
  private val run = Option(hadoopConf.get(StreamExecution.RUN_ID_KEY)).getOrElse("")
  private val operatorFolder = new Path(id.checkpointRootLocation, id.operatorId.toString)
  @volatile private var isRowChecked = false

  def read(version: Long, baseId: Option[String]): ReadStateStore = live(version, baseId) match {
    case Some((state, operator)) => new BinnedReadStore(id, version, rowsOf(state.turn.key, state.holding, operator))
    case None => new BinnedReadStore(id, version, readerRows(version, baseId))
  }

  /** Outside a batch, Spark's reader of a join's state takes handles to write by, and only reads. */
  def write(version: Long, baseId: Option[String]): StateStore = live(version, baseId) match {
    case Some((state, operator)) => new BinnedStore(id, version, rowsOf(state.turn.key, state.holding, operator), state)
    case None => new BinnedStore(id, version, readerRows(version, baseId), new ReadOnlySession(id))
  }

  private def readerRows(version: Long, baseId: Option[String]): BinnedRows = {
    val history = new PlanLog(new Path(id.checkpointRootLocation).getParent.toString, hadoopConf).read()
    if (history.isEmpty) throw missing()
    val reader = new ReaderState(id, history, hadoopConf)
    rowsOf(StoreKey(run, id.operatorId, id.storeName), reader.load(version, baseId.isDefined), reader.operator.name)
  }

  private def live(version: Long, baseId: Option[String]): Option[(LiveState, String)] =
    for {
      (facts, tables) <- BatchFactsHolder.get(run, id.operatorId)
      operator <- facts.operators.find(_.id == id.operatorId)
    } yield (open(facts, tables, version, baseId), operator.name)

  private def open(facts: BatchFacts, tables: Tables, version: Long, base: Option[String]): LiveState = {
    val runtime = ExecutorRuntime.active.getOrElse(throw UnsupportedQueryException.noPlugin)
    val key = StoreKey(run, id.operatorId, id.storeName)
    val context = new StoreContext {
      override def hasCheckpointIds: Boolean = storeConf.enableStateStoreCheckpointIds
      override def baseId: Option[String] = base
      override def checkRow(key: UnsafeRow, value: UnsafeRow): Unit = ProviderSession.this.checkRow(key, value)
      override def reportCommit(newVersion: Long): Unit =
        if (storeConf.commitValidationEnabled) StateStore.reportCommitToCoordinator(newVersion, id, hadoopConf)
      override def conf[A](entry: ConfEntry[A]): A = entry.read(k => Option(hadoopConf.get(k)))
    }
    LiveState.open(runtime, key, id.partitionId, version, facts, tables, runtime.filesOf(key, operatorFolder, hadoopConf), context)
  }

  private def rowsOf(key: StoreKey, holding: Holding, operator: String): BinnedRows = {
    new BinnedRows(key, holding, new BinOfKey(operator, key.store, keySchema, holding.binsCount), prefixed, keySchema.length, valueSchema.length)
  }

  /** Once a provider, as Spark's own do: a row whose bytes do not fit the schema would be read as another. */
  private def checkRow(key: UnsafeRow, value: UnsafeRow): Unit =
    if (!isRowChecked) {
      StateStoreProvider.validateStateRowFormat(key, keySchema, value, valueSchema, id, storeConf)
      isRowChecked = true
    }

  private def missing(): Exception =
    if (Option(TaskContext.get()).exists(_.getLocalProperty("streaming.sql.batchId") != null)) UnsupportedQueryException.noPlugin
    else UnsupportedQueryException.missingPlanLog(new Path(id.checkpointRootLocation).getParent.toString)
}
