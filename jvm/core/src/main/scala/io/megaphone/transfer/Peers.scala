// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.ExecutorAddress

/** The memory of the other executors. Any thread. */
trait Peers {

  /** A block of another executor, or of this one; None where it is not there within `deadlineMs` or
    * cannot be had. Never throws: what a peer lacks, files have.
    */
  def pull(block: BlockName, address: ExecutorAddress, deadlineMs: Long): Option[Array[Byte]]
}

/** Where the source workers of a step run, as far as the driver knows.
  *
  * @param step
  *   names the step in its blocks
  * @param addresses
  *   executor of each source worker
  */
final case class Sources(
    step: String,
    addresses: Map[Int, ExecutorAddress],
    tailDeadlineMs: Long,
    imageDeadlineMs: Long
) {
  def addressOf(worker: Int): Option[ExecutorAddress] = addresses.get(worker)
}

object Sources {
  val None: Sources = Sources("", Map.empty, 0, 0)
}
