// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import io.megaphone.checkpoint.{AtomicOutput, StateFiles}
import io.megaphone.format.{BytesSource, FileName, FileSource, StoreKey}

/** The file of a commit, as its executor sends it to one that stands by for the worker. */
final case class PushedFile(store: StoreKey, file: FileName, bytes: Array[Byte])

/** The files that other executors have sent to this one. Whoever reads a worker's files here reads
  * these instead of those in the checkpoint, so standbys follow their workers without a request to
  * a store, and the last tail is here when the worker's executor dies.
  *
  *   1. A worker's task writes the file of its commit, which is durable then.
  *   1. It sends the bytes, and does not wait. ''Dies before they are sent, or they are lost, or
  *      there is no room here:'' the file in the checkpoint is read.
  *   1. They are kept until the standby has applied them, or the run has ended.
  *
  * Under checkpoint format v1 another attempt of a batch may write the file of the same name again.
  * So files of that format are not sent.
  *
  * Threads: any.
  *
  * @param bytesMax
  *   how many bytes are kept at most: what comes then is dropped. It is no part of the budget
  */
final class PushedFiles(bytesMax: Long) {
  private val kept = new ConcurrentHashMap[(StoreKey, FileName), Array[Byte]]()
  private val held = new AtomicLong

  /** Bytes that are kept. */
  def heldBytes: Long = held.get

  /** Keeps a file that has come. Called twice for a file: the second call does nothing. */
  def add(pushed: PushedFile): Unit = {
    val size = pushed.bytes.length.toLong
    if (held.addAndGet(size) > bytesMax || kept.putIfAbsent(keyOf(pushed), pushed.bytes) != null)
      held.addAndGet(-size)
    ()
  }

  /** Drops the files that are not wanted. */
  def keep(isWanted: (StoreKey, FileName) => Boolean): Unit = kept.keySet.forEach { key =>
    if (!isWanted(key._1, key._2))
      Option(kept.remove(key)).foreach(bytes => held.addAndGet(-bytes.length.toLong))
  }

  /** The files of a store: those that have come, laid over those of the checkpoint. */
  def over(store: StoreKey, files: StateFiles): StateFiles = new StateFiles {
    override def create(file: FileName): AtomicOutput = files.create(file)
    override def open(file: FileName): FileSource = Option(kept.get((store, file))) match {
      case Some(bytes) => new BytesSource(file.toString, bytes, isPushed = true)
      case None => files.open(file)
    }
  }

  private def keyOf(pushed: PushedFile) = (pushed.store, pushed.file)
}
