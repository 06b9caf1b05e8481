// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.neutrality

import org.apache.spark.sql.streaming._
import org.scalatest.DoNotDiscover

/** Spark's own suites of an operator with one input and of one with two pass with the rule on
  * exactly what they pass without it.
  */
final class NeutralitySuite
    extends NeutralSuites(new NeutralAggregation, new NeutralFlatMapGroupsWithInitialState)

@DoNotDiscover class NeutralAggregation extends StreamingAggregationSuite with Neutral
@DoNotDiscover class NeutralFlatMapGroupsWithInitialState
    extends FlatMapGroupsWithStateWithInitialStateSuite
    with Neutral
