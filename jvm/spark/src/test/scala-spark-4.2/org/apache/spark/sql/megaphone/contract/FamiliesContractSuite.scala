// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.execution.streaming.sources.MemorySink
import org.apache.spark.sql.megaphone.neutrality.Neutral.isAll
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.streaming.util.StreamManualClock
import org.scalatest.{Args, DoNotDiscover, Status}

/** Spark's own suites of operators that keep their state in column families pass on bins. */
final class FamiliesContractSuite extends BinnedSuites(new BinnedListState, new BinnedMapState)

/** So do the others, which run with all tests only. */
final class MoreFamiliesContractSuite
    extends BinnedSuites(
      (if (isAll)
         Seq(
           new BinnedTransformWithState,
           new BinnedTransformWithStateInAvro,
           new BinnedListStateWithChecksums,
           new BinnedValueStateTTL,
           new BinnedListStateTTL,
           new BinnedMapStateTTL,
           new BinnedTransformWithInitialState,
           new BinnedTransformWithInitialStateV2,
           new BinnedTransformWithStateChaining,
           new BinnedInnerJoinOfOneStore,
           new BinnedInnerJoinByTime,
           new BinnedOuterJoinByTime
         )
       else Nil): _*
    )

/** Tests that Spark runs twice, with RocksDB's two kinds of changelog, run once. */
trait BinnedOnce extends Binned {
  override def leftOut: Seq[(String, String)] =
    super.leftOut :+ ("(without changelog checkpointing)" ->
      "the same test once more, with a setting of RocksDB's that means nothing to bins")
}

trait BinnedJoin extends BinnedOnce {
  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "Restart streaming join query with virtual column families" ->
      "asserts a metric of RocksDB's, of its column families",
    "changing state format versions should reuse the version" ->
      "asserts a metric of RocksDB's, of its column families",
    "virtual column families with HDFS should fail" ->
      "asks that the HDFS-backed provider refuses what ours runs"
  )
}

/** One test stops its query in a batch that has begun, and fails on RocksDB too where files are
  * fast enough to have that batch's offsets by then: here the batch ends first.
  */
trait BinnedTransform extends BinnedOnce {
  private var isToEndBatch = false

  override protected def runTest(testName: String, args: Args): Status = {
    isToEndBatch = testName.contains("introducing TTL after restart")
    super.runTest(testName, args)
  }

  override def testStream(
      _stream: Dataset[_],
      outputMode: OutputMode,
      extraOptions: Map[String, String],
      sink: MemorySink
  )(actions: StreamAction*): Unit = {
    val endBatch = Execute { query =>
      query.triggerClock match {
        case clock: StreamManualClock =>
          eventually(timeout(streamingTimeout))(
            assert(clock.isStreamWaitingAt(clock.getTimeMillis()))
          )
        case _ => ()
      }
    }
    val all =
      if (isToEndBatch) actions.flatMap(a => if (a == StopStream) Seq(endBatch, a) else Seq(a))
      else actions
    super.testStream(_stream, outputMode, extraOptions, sink)(all: _*)
  }
}

@DoNotDiscover class BinnedTransformWithState
    extends TransformWithStateUnsafeRowSuite
    with BinnedTransform
@DoNotDiscover class BinnedTransformWithStateInAvro
    extends TransformWithStateAvroSuite
    with BinnedTransform
@DoNotDiscover class BinnedListState extends TransformWithListStateSuite with BinnedOnce
@DoNotDiscover class BinnedListStateWithChecksums
    extends TransformWithListStateSuiteWithRowChecksum
    with BinnedOnce
@DoNotDiscover class BinnedMapState extends TransformWithMapStateSuite with BinnedOnce
@DoNotDiscover class BinnedValueStateTTL extends TransformWithValueStateTTLSuite with BinnedOnce
@DoNotDiscover class BinnedListStateTTL extends TransformWithListStateTTLSuite with BinnedOnce
@DoNotDiscover class BinnedMapStateTTL extends TransformWithMapStateTTLSuite with BinnedOnce
@DoNotDiscover class BinnedTransformWithStateChaining
    extends TransformWithStateChainingSuite
    with BinnedOnce
@DoNotDiscover class BinnedTransformWithInitialState
    extends TransformWithStateInitialStateSuite
    with BinnedOnce
@DoNotDiscover class BinnedTransformWithInitialStateV2
    extends TransformWithStateInitialStateSuiteCheckpointV2
    with BinnedOnce
@DoNotDiscover class BinnedInnerJoinOfOneStore
    extends StreamingInnerJoinWithVCFSuite
    with BinnedJoin
@DoNotDiscover class BinnedInnerJoinByTime extends StreamingInnerJoinV4Suite with BinnedJoin
@DoNotDiscover class BinnedOuterJoinByTime extends StreamingOuterJoinV4Suite with BinnedJoin
