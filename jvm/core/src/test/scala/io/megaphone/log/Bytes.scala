// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.nio.{ByteBuffer, ByteOrder}
import java.util.SplittableRandom

import scala.collection.immutable.ArraySeq

/** Byte strings with value equality, and records encoded by hand, to compare a log with. */
object Bytes {
  type Bytes = ArraySeq[Byte]

  val Empty: Bytes = of(new Array[Byte](0))

  def of(bytes: Array[Byte]): Bytes = ArraySeq.unsafeWrapArray(bytes)
  def of(text: String): Bytes = of(text.getBytes("UTF-8"))
  def array(bytes: Bytes): Array[Byte] = bytes.unsafeArray.asInstanceOf[Array[Byte]]
  def slice(bytes: Array[Byte], offset: Int, length: Int): Bytes = of(
    java.util.Arrays.copyOfRange(bytes, offset, offset + length)
  )

  /** The order of an ordered family's keys: by unsigned bytes, a key before those that it is a
    * prefix of.
    */
  val Unsigned: Ordering[Bytes] = (one, other) => {
    val both = math.min(one.length, other.length)
    var i = 0
    while (i < both && one(i) == other(i)) i += 1
    if (i < both) (one(i) & 0xff) - (other(i) & 0xff) else one.length - other.length
  }

  /** `length` bytes that depend on `seed` alone. */
  def random(length: Int, seed: Long): Array[Byte] = {
    val bytes = new Array[Byte](length)
    new SplittableRandom(seed).nextBytes(bytes)
    bytes
  }

  def concat(parts: Iterable[Bytes]): Array[Byte] = {
    val out = new Array[Byte](parts.iterator.map(_.length).sum)
    var at = 0
    parts.foreach { part =>
      System.arraycopy(array(part), 0, out, at, part.length)
      at += part.length
    }
    out
  }

  /** A record as `docs/spec/format.md` specifies it: header word, key and value, each padded with
    * zeros to whole words.
    */
  def putRecord(family: Int, key: Bytes, value: Bytes): Bytes = record(family, 1, key, value)
  def appendRecord(family: Int, key: Bytes, value: Bytes): Bytes = record(family, 3, key, value)
  def removeRecord(family: Int, key: Bytes): Bytes = record(family, 2, key, Empty)

  def recordSize(key: Bytes, value: Bytes): Int =
    8 + (key.length + 7) / 8 * 8 + (value.length + 7) / 8 * 8

  private def record(family: Int, kind: Int, key: Bytes, value: Bytes): Bytes = {
    val out = ByteBuffer.allocate(recordSize(key, value)).order(ByteOrder.LITTLE_ENDIAN)
    out.putLong(
      (family.toLong << 54) | (kind.toLong << 52) | (key.length.toLong << 28) | value.length.toLong
    )
    out.put(array(key)).position(8 + (key.length + 7) / 8 * 8)
    out.put(array(value))
    of(out.array)
  }

  /** The live values after the records of `bytes`, by family and key. */
  def replay(bytes: Array[Byte]): Map[(Int, Bytes), Bytes] = {
    val in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
    var live = Map.empty[(Int, Bytes), Bytes]
    while (in.hasRemaining) {
      val header = in.getLong()
      val (keyBytes, valueBytes) = ((header >>> 28).toInt & 0xffffff, header.toInt & 0xfffffff)
      val name = ((header >>> 54).toInt, slice(bytes, in.position(), keyBytes))
      in.position(in.position() + (keyBytes + 7) / 8 * 8)
      val value = slice(bytes, in.position(), valueBytes)
      ((header >>> 52) & 3).toInt match {
        case 1 => live += name -> value
        case 2 => live -= name
        case _ => live += name -> (live.getOrElse(name, Empty) ++ value)
      }
      in.position(in.position() + (valueBytes + 7) / 8 * 8)
    }
    live
  }
}
