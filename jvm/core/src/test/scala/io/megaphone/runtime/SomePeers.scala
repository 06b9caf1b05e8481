// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress
import io.megaphone.transfer.{BlockName, Coming, Heard, Peers, PushedFile, Question}

/** Peers that have nothing, but for what a test puts in their place. */
class SomePeers(pulled: BlockName => Option[Array[Byte]]) extends Peers {
  override def address: ExecutorAddress = ExecutorAddress("self", "host", 1)
  override def pull(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Option[Array[Byte]] = pulled(block)
  override def pulling(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Coming[Array[Byte]] = Coming.now(pull(block, address, deadlineMs))
  override def ask(question: Question, address: ExecutorAddress, deadlineMs: Long): Heard =
    Heard.Nothing
  override def push(file: PushedFile, to: ExecutorAddress): Unit = ()
  override def publish(block: BlockName, bytes: Array[Byte]): Unit = ()
  override def remove(blocks: Seq[BlockName]): Unit = ()
  override def keep(isWanted: BlockName => Boolean): Unit = ()
  override def publishedCount: Int = 0
}

object NoPeers extends SomePeers(_ => None)
