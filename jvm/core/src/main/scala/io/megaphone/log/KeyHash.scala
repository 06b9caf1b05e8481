// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

/** Finds the hash of the partition key that a stored key leads to: the one by which the exchange
  * chose a bin for the row. Its low bits are the number of the bin.
  *
  * A log never looks inside its keys, so whoever made them tells.
  *
  * Threads: one.
  */
trait KeyHash {

  /** The hash of the partition key of a key that lies in a byte range. Throws
    * NoSuchElementException if the family is not known.
    */
  def apply(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Int
}
