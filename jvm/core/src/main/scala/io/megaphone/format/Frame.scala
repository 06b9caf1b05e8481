// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** A stretch of a file that is compressed as a whole: the records of a bin, or of several where they are few. */
final case class Chunk(file: FileName, writer: WriterId, offset: Long, storedBytes: Int, rawBytes: Int, checksum: Int)

/** What one file has of one bin: the tail of a batch, or an image of the whole bin after it; `rawBytes` of records, from `at` on in the chunk. It is found
  * from anywhere.
  */
final case class Frame(bin: Int, isImage: Boolean, chunk: Chunk, at: Int, rawBytes: Int) {
  def file: FileName = chunk.file
}

/** The frames that rebuild a bin: an image or nothing, then tails in order. The sums are of raw bytes; they are kept, for each commit asks for them. */
final case class Chain private (frames: Vector[Frame], imageBytes: Long, tailBytes: Long) {
  def +(frame: Frame): Chain =
    if (frame.isImage) new Chain(Vector(frame), frame.rawBytes, 0) else new Chain(frames :+ frame, imageBytes, tailBytes + frame.rawBytes)
  def frameCount: Int = frames.size
}

object Chain {
  val Empty: Chain = new Chain(Vector.empty, 0, 0)
  def apply(frames: Iterable[Frame]): Chain = frames.foldLeft(Empty)(_ + _)
}
