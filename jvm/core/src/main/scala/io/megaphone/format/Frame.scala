// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** A stretch of a file that is compressed as a whole: the records of a bin, or of several where they are few. */
final case class Chunk(file: FileName, writer: WriterId, offset: Long, storedBytes: Int, rawBytes: Int, checksum: Int) {
  override val hashCode: Int = (file, writer, offset).hashCode // a footer asks for it once for each frame that it lists
}

/** What one file has of one bin: the tail of a batch, or an image of the whole bin after it; `rawBytes` of records, from `at` on in the chunk. It is found
  * from anywhere.
  */
final case class Frame(bin: Int, isImage: Boolean, chunk: Chunk, at: Int, rawBytes: Int) {
  def file: FileName = chunk.file
}

/** The frames that rebuild a bin: an image or nothing, then tails in order. There is one for each bin in memory: what is known of a frame takes twelve
  * bytes in it. The sum of the tails is kept, for each commit asks for it. Sums are of raw bytes.
  */
final class Chain private (bin: Int, isImaged: Boolean, chunks: Array[Chunk], spans: Array[Long], val tailBytes: Long) {
  import Chain._

  def imageBytes: Long = if (isImaged) rawBytesOf(spans(0)).toLong else 0L
  def frameCount: Int = chunks.length
  def lastFile: Option[FileName] = chunks.lastOption.map(_.file)
  def heapBytes: Long = OwnBytes + 12L * frameCount // the chunks are shared
  def frames: Vector[Frame] = Vector.tabulate(frameCount)(i => Frame(bin, isImaged && i == 0, chunks(i), atOf(spans(i)), rawBytesOf(spans(i))))

  def +(frame: Frame): Chain =
    if (frame.isImage) new Chain(frame.bin, true, Array(frame.chunk), Array(spanOf(frame)), 0)
    else new Chain(frame.bin, isImaged, chunks :+ frame.chunk, spans :+ spanOf(frame), tailBytes + frame.rawBytes)

  /** Whether it has nothing but an image. */
  def isImage: Boolean = isImaged && frameCount == 1

  /** The chain before its last frame, a tail, was added. */
  def init: Chain = new Chain(bin, isImaged, chunks.init, spans.init, tailBytes - rawBytesOf(spans.last))

  override def equals(other: Any): Boolean = other match {
    case that: Chain => frames == that.frames
    case _ => false
  }
  override def hashCode: Int = frames.hashCode
  override def toString: String = frames.mkString("Chain(", ", ", ")")
}

object Chain {
  val Empty: Chain = new Chain(0, false, Array.empty, Array.empty, 0)
  def apply(frames: Iterable[Frame]): Chain = frames.foldLeft(Empty)(_ + _)

  private val OwnBytes = 72 // itself and the heads of its arrays
  private def spanOf(frame: Frame): Long = (frame.at.toLong << 32) | frame.rawBytes
  private def atOf(span: Long): Int = (span >>> 32).toInt
  private def rawBytesOf(span: Long): Int = span.toInt
}
