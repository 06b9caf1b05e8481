// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import io.megaphone.format.StateName

/** A block of bins on their way from one worker to another.
  *
  * @param name
  *   what the block brings its taker to
  * @param step
  *   the step it is for
  */
final case class BlockName(key: StoreKey, source: Int, target: Int, name: StateName, isImage: Boolean, step: String) {
  override def toString: String = s"megaphone-${key.run}-${key.operator}-${key.store}-$step-$source-$target-${if (isImage) "image" else "tail"}-$name"
}

/** The memory of the other executors. Any thread. */
trait Peers {

  /** A block of another executor, or of this one; None where it is not there within `deadlineMs` or cannot be had. Never throws: what a peer lacks, files
    * have.
    */
  def pull(block: BlockName, address: String, deadlineMs: Long): Option[Array[Byte]]
}

/** Where the source workers of a step run, as far as the driver knows.
  *
  * @param step
  *   names the step in its blocks
  * @param addresses
  *   executor of each source worker
  */
final case class Sources(step: String, addresses: Map[Int, String], tailDeadlineMs: Long, imageDeadlineMs: Long) {
  def addressOf(worker: Int): Option[String] = addresses.get(worker)
}

object Sources {
  val None: Sources = Sources("", Map.empty, 0, 0)
}
