// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

/** What records are copied to, one after the other. Threads: one. */
private[log] trait RecordSink {

  /** Makes room for `size` bytes. Returns their offset in `array`. */
  def reserve(size: Int): Int

  /** The array that has the room which `reserve` has just made. */
  def array: Array[Byte]
}

/** Records that lie back to back in an array, from byte `end` on. */
final private[log] class ArraySink(override val array: Array[Byte], var end: Int)
    extends RecordSink {
  override def reserve(size: Int): Int = { end += size; end - size }
}
