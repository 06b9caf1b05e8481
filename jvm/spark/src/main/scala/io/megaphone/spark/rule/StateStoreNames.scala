// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase

import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.spark.conf.MegaphoneConf

/** Adds our provider to those on which Spark runs `transformWithState`. Each such operator checks
  * the provider's class name against a set of its own when it is executed. The name must be added
  * after all rules, because rules copy nodes, and before the operator is executed.
  */
object StateStoreNames {
  private val Names = "SUPPORTED_STATE_STORE_PROVIDERS"

  /** Throws UnsupportedQueryException if this Spark version has no such set. */
  def allow(operator: TransformWithStateExecBase): Unit =
    try {
      val names = classOf[TransformWithStateExecBase].getDeclaredField(Names)
      names.setAccessible(true)
      names.set(
        operator,
        names.get(operator).asInstanceOf[Set[String]] + MegaphoneConf.ProviderClass
      )
    } catch {
      case NonFatal(e) => throw UnsupportedQueryException.operator(operator.nodeName).initCause(e)
    }
}
