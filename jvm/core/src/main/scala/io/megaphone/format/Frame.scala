// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** A stretch of a file that is compressed as a whole: the records of a bin, or of several where
  * they are few.
  */
final case class Chunk(
    file: FileName,
    writer: WriterId,
    offset: Long,
    storedBytes: Int,
    rawBytes: Int,
    checksum: Int
) {
  override val hashCode: Int =
    (file, writer, offset).hashCode // a footer asks for it once for each frame that it lists
}

/** What one file has of one bin: the tail of a batch, or an image of the whole bin after it;
  * `rawBytes` of records, from `at` on in the chunk. It is found from anywhere.
  */
final case class Frame(bin: Int, isImage: Boolean, chunk: Chunk, at: Int, rawBytes: Int) {
  def file: FileName = chunk.file
}
