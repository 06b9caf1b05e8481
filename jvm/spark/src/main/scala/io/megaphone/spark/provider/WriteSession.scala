// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.errors.UnsupportedQueryException

/** The session of a reader's writing handle: its state comes from files and is never written. */
private[provider] final class ReadOnlySession(id: StateStoreId) extends WriteSession {
  override def checkWritable(): Unit = refuse()
  override def commit(): Unit = refuse()
  override def abort(): Unit = ()
  override def commitFailure(cause: Throwable): Throwable = cause
  override def metrics(rows: BinnedRows): StateStoreMetrics =
    StateStoreMetrics(rows.keyCount, rows.heapBytes, Map.empty)
  override def checkpointInfo: StateStoreCheckpointInfo = refuse()

  private def refuse(): Nothing =
    if (StoreContext.isInBatch) throw UnsupportedQueryException.notRouted
    else
      throw new UnsupportedOperationException(
        s"The state $id was opened by a reader and cannot be written; only a batch of its own " +
          "query writes it."
      )
}

/** What a [[BinnedStore]] needs from the task's or the reader's session. */
private[provider] trait WriteSession {
  def checkWritable(): Unit
  def commit(): Unit
  def abort(): Unit
  def commitFailure(cause: Throwable): Throwable
  def metrics(rows: BinnedRows): StateStoreMetrics
  def checkpointInfo: StateStoreCheckpointInfo
}
