// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.record

/** The header word of a record, the unit of a bin's log: `[header 8 B][key][value]`, each part
  * padded to eight bytes.
  *
  * From the low bits up: value length (28 bits, bytes), key length (24 bits, bytes), kind (2 bits),
  * column family (10 bits). No header is zero, because no kind is.
  *
  * The top bit of the family says that its keys are also kept in order, so the records alone
  * determine which indexes to build.
  */
object Record {
  val HeaderBytes = 8
  val Put = 1
  val Remove = 2

  /** Its value is appended to the value that the key has, if any. */
  val Append = 3
  val ValueBytesMax: Int = (1 << 28) - 1
  val KeyBytesMax: Int = (1 << 24) - 1
  val FamilyMax: Int = (1 << 10) - 1
  val OrderedFamilyMin: Int = 1 << 9

  /** Whether ranges of the family's keys can be scanned, in the unsigned order of their bytes. */
  def isOrdered(family: Int): Boolean = family >= OrderedFamilyMin

  def header(family: Int, kind: Int, keyBytes: Int, valueBytes: Int): Long =
    (family.toLong << 54) | (kind.toLong << 52) | (keyBytes.toLong << 28) | valueBytes

  def family(header: Long): Int = (header >>> 54).toInt
  def kind(header: Long): Int = (header >>> 52).toInt & 3
  def keyBytes(header: Long): Int = (header >>> 28).toInt & KeyBytesMax
  def valueBytes(header: Long): Int = header.toInt & ValueBytesMax

  /** Bytes of a record, header and padding included. */
  def size(header: Long): Int = size(keyBytes(header), valueBytes(header))
  def size(keyBytes: Int, valueBytes: Int): Int =
    HeaderBytes + padded(keyBytes) + padded(valueBytes)

  /** `length` rounded up to whole words. */
  def padded(length: Int): Int = (length + 7) & ~7
}
