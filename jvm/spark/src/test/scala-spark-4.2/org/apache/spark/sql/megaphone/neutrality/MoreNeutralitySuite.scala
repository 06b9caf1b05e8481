// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.neutrality

import org.apache.spark.sql.streaming._
import org.scalatest.DoNotDiscover

/** So do the suites of the other operators, and of chains, unions and joins. They take long and run
  * with all tests only.
  */
final class MoreNeutralitySuite
    extends NeutralSuites(
      (if (Neutral.isAll)
         Seq(
           new NeutralDeduplication,
           new NeutralDeduplicationWithinWatermark,
           new NeutralFlatMapGroupsWithState,
           new NeutralMultiStatefulOperators,
           new NeutralSessionWindow,
           new NeutralSelfUnion,
           new NeutralInnerJoin,
           new NeutralOuterJoin,
           new NeutralFullOuterJoin,
           new NeutralLeftSemiJoin,
           new NeutralInnerJoinOfOneStore,
           new NeutralAggregationDistribution,
           new NeutralDeduplicationDistribution,
           new NeutralFlatMapGroupsWithStateDistribution,
           new NeutralSessionWindowDistribution,
           new NeutralTriggerAvailableNow
         )
       else Nil): _*
    )

@DoNotDiscover class NeutralDeduplication extends StreamingDeduplicationSuite with Neutral
@DoNotDiscover class NeutralDeduplicationWithinWatermark
    extends StreamingDeduplicationWithinWatermarkSuite
    with Neutral
@DoNotDiscover class NeutralFlatMapGroupsWithState extends FlatMapGroupsWithStateSuite with Neutral
@DoNotDiscover class NeutralMultiStatefulOperators extends MultiStatefulOperatorsSuite with Neutral
@DoNotDiscover class NeutralSessionWindow extends StreamingSessionWindowSuite with Neutral
@DoNotDiscover class NeutralSelfUnion extends StreamingSelfUnionSuite with Neutral
@DoNotDiscover class NeutralInnerJoin extends StreamingInnerJoinWithoutVCFSuite with Neutral
@DoNotDiscover class NeutralOuterJoin extends StreamingOuterJoinWithoutVCFSuite with Neutral
@DoNotDiscover class NeutralFullOuterJoin extends StreamingFullOuterJoinWithoutVCFSuite with Neutral
@DoNotDiscover class NeutralLeftSemiJoin extends StreamingLeftSemiJoinWithoutVCFSuite with Neutral
@DoNotDiscover class NeutralInnerJoinOfOneStore extends StreamingInnerJoinWithVCFSuite with Neutral
@DoNotDiscover class NeutralAggregationDistribution
    extends StreamingAggregationDistributionSuite
    with Neutral
@DoNotDiscover class NeutralDeduplicationDistribution
    extends StreamingDeduplicationDistributionSuite
    with Neutral
@DoNotDiscover class NeutralFlatMapGroupsWithStateDistribution
    extends FlatMapGroupsWithStateDistributionSuite
    with Neutral
@DoNotDiscover class NeutralSessionWindowDistribution
    extends StreamingSessionWindowDistributionSuite
    with Neutral
@DoNotDiscover class NeutralTriggerAvailableNow extends TriggerAvailableNowSuite with Neutral
