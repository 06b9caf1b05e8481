// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.ExecutorAddress

/** The blocks of this executor and of the other executors.
  *
  * Threads: any, at any time.
  */
trait Peers {

  /** The address at which other executors get this executor's blocks. */
  def address: ExecutorAddress

  /** Pulls a block of another executor, or of this one. Returns None if the block does not come
    * within `deadlineMs` or does not exist. Never throws: the files have everything that a peer
    * lacks.
    */
  def pull(block: BlockName, address: ExecutorAddress, deadlineMs: Long): Option[Array[Byte]]

  /** Pulls several blocks at once, under one deadline: each executor is asked once for all of its
    * blocks. Returns those that have come.
    */
  def pullAll(
      blocks: Seq[(BlockName, ExecutorAddress)],
      deadlineMs: Long
  ): Map[BlockName, Array[Byte]] =
    blocks.flatMap { case (block, at) => pull(block, at, deadlineMs).map(block -> _) }.toMap

  /** Makes a block available to other executors. Called twice: nothing happens. */
  def publish(block: BlockName, bytes: Array[Byte]): Unit

  /** Removes published blocks. Called twice: nothing happens. */
  def remove(blocks: Seq[BlockName]): Unit

  /** Removes the published blocks that are not wanted. */
  def keep(isWanted: BlockName => Boolean): Unit

  /** Number of blocks that are published. */
  def publishedCount: Int
}
