// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.nio.charset.StandardCharsets.UTF_8
import java.util

import io.megaphone.errors.DamagedFileException
import io.megaphone.log.record.Words

/** Writes the primitives of all formats to a growing array: fixed little-endian words,
  * variable-length unsigned integers, and strings and byte arrays with their length before them.
  *
  * Threads: one.
  */
final class Encoder(capacity: Int = 256) {
  private var bytes = new Array[Byte](math.max(16, capacity))
  private var used = 0

  def size: Int = used

  /** What has been written. A full array is given as it is: what is written next is in another. */
  def toBytes: Array[Byte] = if (used == bytes.length) bytes else util.Arrays.copyOf(bytes, used)

  def byte(value: Int): this.type = {
    room(1)
    bytes(used) = value.toByte
    used += 1
    this
  }

  def int(value: Int): this.type = {
    room(4)
    var i = 0
    while (i < 4) {
      bytes(used + i) = (value >>> (8 * i)).toByte
      i += 1
    }
    used += 4
    this
  }

  def long(value: Long): this.type = {
    room(8)
    Words.set(bytes, used, value)
    used += 8
    this
  }

  /** Writes seven bits a byte, lowest first; the top bit says that more follow. A negative value
    * takes ten bytes.
    */
  def varint(value: Long): this.type = {
    room(10)
    var rest = value
    while ((rest & ~0x7fL) != 0) {
      bytes(used) = (rest.toInt | 0x80).toByte
      used += 1
      rest >>>= 7
    }
    bytes(used) = rest.toByte
    used += 1
    this
  }

  def boolean(value: Boolean): this.type = byte(if (value) 1 else 0)
  def string(value: String): this.type = this.blob(value.getBytes(UTF_8))
  def blob(value: Array[Byte]): this.type = varint(value.length).raw(value)
  def raw(value: Array[Byte]): this.type = {
    room(value.length)
    System.arraycopy(value, 0, bytes, used, value.length)
    used += value.length
    this
  }

  /** Writes the number of the values, and each of them by `one`. */
  def seq[A](values: Iterable[A])(one: A => Unit): this.type = {
    varint(values.size)
    values.foreach(one)
    this
  }

  def option[A](value: Option[A])(one: A => Unit): this.type = {
    boolean(value.isDefined)
    value.foreach(one)
    this
  }

  private def room(count: Int): Unit = if (used + count > bytes.length)
    bytes = util.Arrays.copyOf(bytes, math.max(used + count, bytes.length * 2))
}

/** Reads the primitives that [[Encoder]] wrote. Every method throws [[DamagedFileException]], which
  * names `file`, if the bytes end early or are invalid.
  *
  * Threads: one.
  */
final class Decoder(file: String, bytes: Array[Byte], private var at: Int, end: Int) {
  def this(file: String, bytes: Array[Byte]) = this(file, bytes, 0, bytes.length)

  def remaining: Int = end - at
  def byte(): Int = {
    need(1)
    val b = bytes(at) & 0xff
    at += 1
    b
  }

  def int(): Int = {
    need(4)
    var v = 0
    var i = 0
    while (i < 4) {
      v |= (bytes(at + i) & 0xff) << (8 * i)
      i += 1
    }
    at += 4
    v
  }

  def long(): Long = {
    need(8)
    val v = Words.get(bytes, at)
    at += 8
    v
  }

  def varint(): Long = {
    var value = 0L
    var shift = 0
    var b = byte()
    while ((b & 0x80) != 0) {
      value |= (b & 0x7fL) << shift
      shift += 7
      if (shift > 63) fail("an integer of at most ten bytes", "a longer one")
      b = byte()
    }
    value | (b.toLong << shift)
  }

  /** A varint that must lie between 0 and `max`. */
  def count(max: Int = Int.MaxValue): Int = {
    val v = varint()
    if (v < 0 || v > max) fail(s"a count between 0 and $max", v.toString)
    v.toInt
  }

  def boolean(): Boolean = byte() != 0

  def blob(): Array[Byte] = {
    val n = count()
    need(n)
    val b = util.Arrays.copyOfRange(bytes, at, at + n)
    at += n
    b
  }

  def string(): String = new String(blob(), UTF_8)

  def seq[A](one: => A): Vector[A] = {
    // Each element takes at least a byte, so a damaged count cannot ask for much memory.
    val n = count(remaining)
    Vector.from(Iterator.fill(n)(one)) // most are short, and `Vector.fill` makes room for 32
  }

  def option[A](one: => A): Option[A] = if (boolean()) Some(one) else None

  def fail(expected: String, found: String): Nothing =
    throw new DamagedFileException(file, None, expected, found)

  private def need(count: Int): Unit =
    if (count < 0 || count > end - at) fail(s"$count more bytes", s"${end - at}")
}
