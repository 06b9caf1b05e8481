// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

/** What Spark gives no tasks any more, for too many failed there. */
sealed trait Excluded
final case class ExcludedExecutor(id: String) extends Excluded
final case class ExcludedHost(name: String) extends Excluded
