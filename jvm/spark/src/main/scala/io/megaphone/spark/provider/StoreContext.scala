// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution

import io.megaphone.log.KeyReader
import io.megaphone.spark.conf.ConfEntry
import io.megaphone.spark.provider.families.ColumnFamilies

/** What a provider knows beside the state: for the sessions it opens. */
private[provider] trait StoreContext {
  def hasCheckpointIds: Boolean
  def baseId: Option[String]
  def takeFamilies(binsCount: Int): ColumnFamilies

  /** Reads the store's keys. Any thread may call this; what it returns is for one thread. */
  def keyReader(binsCount: Int): KeyReader
  def giveBack(families: ColumnFamilies): Unit
  def reportCommit(newVersion: Long): Unit

  /** Throws Spark's error where records that were read from a file are not what was written. Any
    * thread.
    */
  def checkLoaded(records: Array[Byte]): Unit
  def conf[A](entry: ConfEntry[A]): A
}

private[provider] object StoreContext {

  /** Whether the current task is one of a batch of a streaming query. */
  def isInBatch: Boolean =
    Option(TaskContext.get()).exists(_.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY) != null)
}
