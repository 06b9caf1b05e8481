// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

/** Says of stored keys what their log cannot know: a log never looks inside its keys, so whoever
  * made them tells.
  *
  * Threads: one.
  */
trait KeyReader {

  /** The hash of the partition key that a stored key leads to: the one by which the exchange chose
    * a bin for the row. Its low bits are the number of the bin. Throws NoSuchElementException if
    * the family is not known.
    */
  def hashOf(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Int

  /** The time that an ordered family orders a key by, which is its first column. Throws
    * NoSuchElementException if the family is not known.
    */
  def timeOf(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Long =
    throw new NoSuchElementException(s"Family $family is not ordered by a time.")
}
