// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** An executor and the address at which it answers other executors.
  *
  * @param id
  *   Spark's id of the executor
  * @param port
  *   0 if the executor has not told it yet, or has none
  */
final case class ExecutorAddress(id: String, host: String, port: Int) {
  def isKnown: Boolean = port > 0
  override def toString: String = s"$id at $host:$port"
}
