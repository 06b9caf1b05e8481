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
  def pull(block: BlockName, address: ExecutorAddress, deadlineMs: Long): Option[Array[Byte]] =
    pulling(block, address, deadlineMs).await()

  /** Begins to pull a block, which comes as from `pull`. The deadline begins now. */
  def pulling(block: BlockName, address: ExecutorAddress, deadlineMs: Long): Coming[Array[Byte]]

  /** Pulls several blocks, from all executors at once. Calls `come` with each block that comes, on
    * this thread, one after the other. An executor is asked for all of its blocks, and again for
    * those that its answer has no room for, after `come` has had what it sent: so one answer of
    * each executor is in memory. Waits for `deadlineMs` in all; the time in `come` does not count.
    * Throws what `come` throws.
    */
  def pullAll(blocks: Seq[(BlockName, ExecutorAddress)], deadlineMs: Long)(
      come: (BlockName, Array[Byte]) => Unit
  ): Unit = for ((block, at) <- blocks; bytes <- pull(block, at, deadlineMs)) come(block, bytes)

  /** Asks another executor, or this one, about what a step on demand took, and waits for the
    * answer. Returns Gone if none comes; `Late` if that is because `deadlineMs` have passed. Throws
    * InterruptedException, and nothing else.
    */
  def ask(question: Question, address: ExecutorAddress, deadlineMs: Long): Heard

  /** Begins to ask, so that several executors can be asked at once. Returns what waits for the
    * answer, as `ask` does, and is called once. It throws InterruptedException, and nothing else.
    */
  def asking(question: Question, address: ExecutorAddress, deadlineMs: Long): () => Heard = {
    val heard = ask(question, address, deadlineMs)
    () => heard
  }

  /** Sends a file to another executor, which keeps it for its standby. Does not wait, and never
    * throws: the file may be lost, late, or come twice.
    */
  def push(file: PushedFile, to: ExecutorAddress): Unit

  /** Makes a block available to other executors. Called twice: nothing happens. */
  def publish(block: BlockName, bytes: Array[Byte]): Unit

  /** Removes published blocks. Called twice: nothing happens. */
  def remove(blocks: Seq[BlockName]): Unit

  /** Removes the published blocks that are not wanted. */
  def keep(isWanted: BlockName => Boolean): Unit

  /** Number of blocks that are published. */
  def publishedCount: Int
}
