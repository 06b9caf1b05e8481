// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.ExecutorAddress

/** The blocks of this executor, and those of the others.
  *
  * Threads: any, at any time.
  */
trait Peers {

  /** Where other executors get this one's blocks. */
  def address: ExecutorAddress

  /** Pulls a block of another executor, or of this one. Returns None if the block does not come
    * within `deadlineMs` or cannot be had. Never throws: what a peer lacks, files have.
    */
  def pull(block: BlockName, address: ExecutorAddress, deadlineMs: Long): Option[Array[Byte]]

  /** Makes a block available to other executors. Called twice: nothing happens. */
  def publish(block: BlockName, bytes: Array[Byte]): Unit

  /** Removes the published blocks that are not wanted. */
  def keep(isWanted: BlockName => Boolean): Unit

  /** How many blocks are published. */
  def publishedCount: Int
}
