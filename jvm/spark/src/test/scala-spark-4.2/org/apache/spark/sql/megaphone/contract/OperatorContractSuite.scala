// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import org.apache.spark.sql.execution.streaming.state.OperatorStateMetadataSuite
import org.apache.spark.sql.megaphone.neutrality.Neutral.isAll
import org.apache.spark.sql.streaming._
import org.scalatest.DoNotDiscover

/** Spark's own suites of the operators pass on bins. */
final class OperatorContractSuite
    extends BinnedSuites(
      new BinnedAggregation,
      new BinnedDeduplication,
      new BinnedDeduplicationWithinWatermark,
      new BinnedFlatMapGroupsWithState,
      new BinnedFlatMapGroupsWithInitialState
    )

/** So do the others, which run with all tests only. */
final class MoreOperatorsContractSuite
    extends BinnedSuites(
      (if (isAll)
         Seq(
           new BinnedSessionWindow,
           new BinnedInnerJoin,
           new BinnedOuterJoin,
           new BinnedMultiStatefulOperators,
           new BinnedOperatorMetadata
         )
       else Nil): _*
    )

@DoNotDiscover class BinnedAggregation extends StreamingAggregationSuite with Binned
@DoNotDiscover class BinnedDeduplication extends StreamingDeduplicationSuite with Binned
@DoNotDiscover class BinnedDeduplicationWithinWatermark
    extends StreamingDeduplicationWithinWatermarkSuite
    with Binned
@DoNotDiscover class BinnedFlatMapGroupsWithState extends FlatMapGroupsWithStateSuite with Binned
@DoNotDiscover class BinnedFlatMapGroupsWithInitialState
    extends FlatMapGroupsWithStateWithInitialStateSuite
    with Binned
@DoNotDiscover class BinnedSessionWindow extends StreamingSessionWindowSuite with Binned
@DoNotDiscover class BinnedInnerJoin extends StreamingInnerJoinWithoutVCFSuite with Binned
@DoNotDiscover class BinnedOuterJoin extends StreamingOuterJoinWithoutVCFSuite with Binned
@DoNotDiscover class BinnedMultiStatefulOperators extends MultiStatefulOperatorsSuite with Binned
@DoNotDiscover class BinnedOperatorMetadata extends OperatorStateMetadataSuite with Binned
