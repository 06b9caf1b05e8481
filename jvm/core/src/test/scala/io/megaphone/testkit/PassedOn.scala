// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

import io.megaphone.format.FileSource

/** A source that passes everything on to another. Tests override what they look at or damage. */
class PassedOn(source: FileSource) extends FileSource {
  override def name: String = source.name
  override def length: Long = source.length
  override def read(position: Long, count: Int): Array[Byte] = source.read(position, count)
  override def close(): Unit = source.close()
}
