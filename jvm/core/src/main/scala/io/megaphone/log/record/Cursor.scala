// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.record

/** The place of a record's key and value. The cursor moves; the bytes do not change in a batch. */
final class Cursor {
  var bytes: Array[Byte] = _
  var keyOffset, keyBytes, valueOffset, valueBytes = 0

  private[log] def set(record: Array[Byte], offset: Int): Unit = {
    val header = Words.get(record, offset)
    bytes = record
    keyOffset = offset + Record.HeaderBytes
    keyBytes = Record.keyBytes(header)
    valueOffset = keyOffset + Record.padded(keyBytes)
    valueBytes = Record.valueBytes(header)
  }
}
