// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** A stretch of a file that is compressed and checked as a whole: the records of one bin, or of
  * several bins with few records. Lengths are in bytes.
  */
final case class Chunk(
    file: FileName,
    writer: WriterId,
    offset: Long,
    storedBytes: Int,
    rawBytes: Int,
    checksum: Int
) {
  // A footer asks for it once for each frame that it lists.
  override val hashCode: Int = (file, writer, offset).hashCode
}

/** The records of one bin in one file: the tail of a batch, or an image of the whole bin after it.
  * They are `rawBytes` bytes, from byte `at` of the raw chunk. A frame names its file, so chains of
  * other files may refer to it.
  */
final case class Frame(bin: Int, isImage: Boolean, chunk: Chunk, at: Int, rawBytes: Int) {
  def file: FileName = chunk.file
}
