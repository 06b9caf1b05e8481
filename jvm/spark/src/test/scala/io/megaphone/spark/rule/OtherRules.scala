// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/** Another plugin's rule, which changes plans after the routing rule did. */
final class OtherRules extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar { _ =>
    new ColumnarRule {
      override def postColumnarTransitions: Rule[SparkPlan] = new Rule[SparkPlan] {
        override def apply(plan: SparkPlan): SparkPlan = plan.transformUp(OtherRules.change)
      }
    }
  }
}

object OtherRules {
  val Nothing: PartialFunction[SparkPlan, SparkPlan] = PartialFunction.empty

  /** What the rule does to the nodes of a plan. */
  @volatile var change: PartialFunction[SparkPlan, SparkPlan] = Nothing
}
