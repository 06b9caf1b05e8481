// SPDX-License-Identifier: Apache-2.0
package io.megaphone

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

import io.megaphone.spark.rule.RoutingRule

/** The session extensions: inject the routing rule as a columnar rule, the only extension point
  * that sees every micro-batch's physical plan after its exchanges are placed.
  */
final class MegaphoneExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar {
    session =>
      new ColumnarRule {
        override def preColumnarTransitions: Rule[SparkPlan] =
          new RoutingRule(session.asInstanceOf[SparkSession])
      }
  }
}
