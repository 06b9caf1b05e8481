// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.neutrality

import org.apache.spark.sql.streaming._
import org.scalatest.DoNotDiscover

/** Spark's own suites of the supported operators pass with the rule on exactly what they pass
  * without it.
  */
final class NeutralitySuite
    extends NeutralSuites(
      new NeutralAggregation,
      new NeutralDeduplication,
      new NeutralDeduplicationWithinWatermark,
      new NeutralFlatMapGroupsWithState,
      new NeutralFlatMapGroupsWithInitialState
    )

@DoNotDiscover class NeutralAggregation extends StreamingAggregationSuite with Neutral
@DoNotDiscover class NeutralDeduplication extends StreamingDeduplicationSuite with Neutral
@DoNotDiscover class NeutralDeduplicationWithinWatermark
    extends StreamingDeduplicationWithinWatermarkSuite
    with Neutral
@DoNotDiscover class NeutralFlatMapGroupsWithState extends FlatMapGroupsWithStateSuite with Neutral
@DoNotDiscover class NeutralFlatMapGroupsWithInitialState
    extends FlatMapGroupsWithStateWithInitialStateSuite
    with Neutral
