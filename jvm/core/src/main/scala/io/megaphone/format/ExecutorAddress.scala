// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** An executor and the address of its block manager.
  *
  * @param id
  *   Spark's id of the executor
  * @param port
  *   port of its block manager
  */
final case class ExecutorAddress(id: String, host: String, port: Int) {
  override def toString: String = s"$id at $host:$port"
}
