// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.util.zip.CRC32C

object Checksum {

  /** CRC-32C of a byte range. */
  def of(bytes: Array[Byte], offset: Int, length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, offset, length)
    crc.getValue.toInt
  }
  def of(bytes: Array[Byte]): Int = of(bytes, 0, bytes.length)
}
