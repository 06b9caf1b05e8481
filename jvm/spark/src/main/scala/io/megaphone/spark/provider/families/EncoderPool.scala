// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import java.util.concurrent.atomic.AtomicReference

import io.megaphone.plan.Operator

/** Keeps one task's column families, with their encoders, for the next task of the same provider.
  * Encoders are code that Spark generates; generating it takes longer than a small batch.
  *
  * Threads: any. Two tasks never get the same families.
  */
private[provider] final class EncoderPool {
  private val spare = new AtomicReference[ColumnFamilies]

  /** The families that were given back, if they still fit; otherwise new ones. */
  def take(operator: Operator, make: => ColumnFamilies): ColumnFamilies =
    Option(spare.getAndSet(null))
      .filter(f => f.operator == operator && f.areCurrent)
      .getOrElse(make)

  /** Keeps the families for a later task. The caller must not use them any more. */
  def giveBack(families: ColumnFamilies): Unit = spare.set(families)
}
