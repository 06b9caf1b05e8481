// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase

import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.spark.conf.MegaphoneConf

/** Spark runs `transformWithState` on state stores of certain names only, whatever they can do:
  * each operator holds a set of them, and looks there when it is executed. Ours is added to the
  * operators of a batch, after all rules, which copy nodes, and before they are executed.
  */
object StateStoreNames {
  private val Names = "SUPPORTED_STATE_STORE_PROVIDERS"

  /** Throws UnsupportedQueryException where this Spark keeps the names otherwise. */
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
