// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.sql.{Dataset, Encoder}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

/** A stream that a test feeds, and whose rows a batch query reads too. */
final class FedStream[A: Encoder](spark: SparkSession) {
  private val memory = MemoryStream[A](spark)
  private var fed = Vector.empty[A]

  def stream: Dataset[A] = memory.toDS()

  /** All that was fed so far. */
  def batch: Dataset[A] = spark.createDataset(fed)
  def count: Int = fed.size

  def feed(rows: Seq[A]): Unit = { fed ++= rows; memory.addData(rows); () }
}
