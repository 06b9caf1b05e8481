// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.record

/** Where a record's key and value lie. The bytes stay as they are for the batch; the cursor moves. */
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
