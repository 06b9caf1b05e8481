// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** An executor, and where its blocks are to be had.
  *
  * @param id
  *   Spark's id of the executor
  * @param port
  *   of its block manager
  */
final case class ExecutorAddress(id: String, host: String, port: Int) {
  override def toString: String = s"$id at $host:$port"
}
