// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

/** Bytes with a single bit changed, for tests of damage. */
object BitFlips {

  /** Copies of some bytes, each with another bit changed: all bits of all bytes, or of those at
    * some places.
    */
  def of(bytes: Array[Byte]): Iterator[Array[Byte]] = of(bytes, bytes.indices)
  def of(bytes: Array[Byte], places: Range): Iterator[Array[Byte]] = for {
    at <- places.iterator
    bit <- 0 until 8
  } yield bytes.updated(at, (bytes(at) ^ (1 << bit)).toByte)
}
