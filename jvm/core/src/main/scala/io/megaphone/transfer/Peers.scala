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
    * blocks. What comes has at most `bytesMax` bytes, or is one block.
    */
  def pullAll(
      blocks: Seq[(BlockName, ExecutorAddress)],
      deadlineMs: Long,
      bytesMax: Long
  ): Peers.Answers = blocks.foldLeft(Peers.Answers()) { case (answers, (block, at)) =>
    if (answers.later.nonEmpty) answers.without(block)
    else pull(block, at, deadlineMs).fold(answers)(answers.and(block, _, bytesMax))
  }

  /** Makes a block available to other executors. Called twice: nothing happens. */
  def publish(block: BlockName, bytes: Array[Byte]): Unit

  /** Removes published blocks. Called twice: nothing happens. */
  def remove(blocks: Seq[BlockName]): Unit

  /** Removes the published blocks that are not wanted. */
  def keep(isWanted: BlockName => Boolean): Unit

  /** Number of blocks that are published. */
  def publishedCount: Int
}

object Peers {

  /** What came of a pull of several blocks.
    *
    * @param come
    *   the blocks that have come
    * @param later
    *   blocks that have not come because there was no room for them, and may be pulled again
    */
  final case class Answers(
      come: Map[BlockName, Array[Byte]] = Map.empty,
      later: Set[BlockName] = Set.empty
  ) {
    private def bytes = come.valuesIterator.map(_.length.toLong).sum

    private[transfer] def without(block: BlockName): Answers = copy(later = later + block)
    private[transfer] def and(block: BlockName, found: Array[Byte], bytesMax: Long): Answers =
      if (come.isEmpty || bytes + found.length <= bytesMax) copy(come = come + (block -> found))
      else without(block)
  }
}
