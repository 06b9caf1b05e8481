// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.megaphone.neutrality.Neutral.isAll
import org.scalatest.DoNotDiscover

import io.megaphone.BinnedStateStoreProvider

/** Spark's own suites of the state data source pass on bins: state, change feed, and the variables of `transformWithState`. */
final class StateSourceContractSuite
    extends BinnedSuites(Seq(new BinnedChangeFeed, new BinnedStateSource) ++ (if (isAll) Seq(new BinnedStateOfTransformWithState) else Nil): _*)

/** Compares what is read but for the column `partition_id`: a key's partition is its bin modulo the number of partitions, not its hash. */
trait BinnedSource extends BinnedOnce {
  override protected def checkAnswer(df: => DataFrame, expected: Seq[Row]): Unit = {
    val read = df
    val column = read.columns.indexOf("partition_id")
    if (column < 0) super.checkAnswer(read, expected)
    else super.checkAnswer(read.drop("partition_id"), expected.map(r => Row.fromSeq(r.toSeq.patch(column, Nil, 1))))
  }

  override def leftOut: Seq[(String, String)] =
    super.leftOut ++ Seq(
      "partition_id column" -> "asserts that a key's partition is its hash modulo their number, where here it is the bin's",
      "getChangeDataReader of state store provider" -> "writes with a provider outside of a query, whose plan log tells who has which bin",
      "snapshotStartBatchId with transformWithState" -> "waits for snapshot files of RocksDB's names"
    )
}

@DoNotDiscover class BinnedStateSource extends StateDataSourceReadSuite with BinnedSource {
  override protected def newStateStoreProvider(): BinnedStateStoreProvider = new BinnedStateStoreProvider
}

@DoNotDiscover class BinnedChangeFeed extends StateDataSourceChangeDataReaderSuite with BinnedSource {
  override protected def newStateStoreProvider(): BinnedStateStoreProvider = new BinnedStateStoreProvider
}

@DoNotDiscover class BinnedStateOfTransformWithState extends StateDataSourceTransformWithStateSuite with BinnedSource
