// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** A stretch of a file that is compressed and checked as a whole: the records of one bin, or of
  * several bins with few records. Lengths are in bytes.
  *
  * @param more
  *   the chunks that continue this one, without `more` of their own: the records of a large bin are
  *   in several, so that no more than one needs to be in memory
  */
final case class Chunk(
    file: FileName,
    writer: WriterId,
    offset: Long,
    storedBytes: Int,
    rawBytes: Int,
    checksum: Int,
    more: Vector[Chunk] = Vector.empty
) {

  /** This chunk and those that continue it, one by one. */
  def pieces: Vector[Chunk] =
    if (more.isEmpty) Vector(this) else copy(more = Vector.empty) +: more

  /** Raw bytes of all pieces. */
  def rawBytesOfAll: Long = rawBytes + more.iterator.map(_.rawBytes.toLong).sum

  /** Stored bytes of all pieces. */
  def storedBytesOfAll: Long = storedBytes + more.iterator.map(_.storedBytes.toLong).sum

  // A footer asks for it once for each frame that it lists.
  override val hashCode: Int = (file, writer, offset).hashCode
}

/** The records of one bin in one file: the tail of a batch, or an image of the whole bin after it.
  * They are `rawBytes` bytes, from byte `at` of the raw chunk, or all of a chunk in several pieces.
  * A frame names its file, so chains of other files may refer to it.
  */
final case class Frame(bin: Int, isImage: Boolean, chunk: Chunk, at: Int, rawBytes: Long) {
  def file: FileName = chunk.file
}
