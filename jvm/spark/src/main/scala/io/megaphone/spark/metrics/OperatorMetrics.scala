// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.metrics

import org.apache.spark.sql.execution.streaming.state._

/** The custom metrics of a stateful operator. Spark shows them in `StreamingQueryProgress`, the SQL
  * tab and the Structured Streaming page, summed over the operator's workers and stores. Of a join
  * with four stores it hands on those of two: for each side, of the store that has the rows.
  */
object OperatorMetrics {
  val BinsIn: StateStoreCustomMetric =
    StateStoreCustomSumMetric("megaphoneBinsIn", "bins that moved in from another worker")
  val BytesIn: StateStoreCustomMetric =
    StateStoreCustomSizeMetric(
      "megaphoneBytesIn",
      "bytes read for bins that moved in or were recovered"
    )
  val BinsFromPeer: StateStoreCustomMetric = StateStoreCustomSumMetric(
    "megaphoneBinsFromPeer",
    "bins that came from another executor's memory"
  )
  val BinsFromCheckpoint: StateStoreCustomMetric =
    StateStoreCustomSumMetric("megaphoneBinsFromCheckpoint", "bins that came from the checkpoint")
  val SubBins: StateStoreCustomMetric = StateStoreCustomSumMetric(
    "megaphoneSubBins",
    "sub-bins of incomplete bins that the batch needed and brought"
  )
  val BinWaitMs: StateStoreCustomMetric =
    StateStoreCustomTimingMetric("megaphoneBinWaitMs", "time that tasks waited for bins")
  val BinsOwned: StateStoreCustomMetric =
    StateStoreCustomSumMetric("megaphoneBinsOwned", "bins owned")
  val BinsIncomplete: StateStoreCustomMetric = StateStoreCustomSumMetric(
    "megaphoneBinsIncomplete",
    "bins of which a step on demand has left something elsewhere"
  )
  val BytesToCome: StateStoreCustomMetric =
    StateStoreCustomSizeMetric(
      "megaphoneBytesToCome",
      "about how many bytes are elsewhere of these"
    )
  val BytesOnDisk: StateStoreCustomMetric =
    StateStoreCustomSizeMetric(
      "megaphoneBytesOnDisk",
      "bytes of state on local disk, beyond the memory budget"
    )
  val ForcedSnapshots: StateStoreCustomMetric = StateStoreCustomSumMetric(
    "forceSnapshotCount",
    "commits that wrote images of all bins, as requested"
  )

  /** For each worker and store, the newest version that can be recovered quickly. That is every
    * committed version, because chains are short.
    */
  val SnapshotLastUploaded: StateStoreInstanceMetric = StateStoreSnapshotLastUploadInstanceMetric()

  val all: Seq[StateStoreCustomMetric] = Seq(
    BinsIn,
    BytesIn,
    BinsFromPeer,
    BinsFromCheckpoint,
    SubBins,
    BinWaitMs,
    BinsOwned,
    BinsIncomplete,
    BytesToCome,
    BytesOnDisk,
    ForcedSnapshots
  )
}
