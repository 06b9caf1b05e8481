// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** The frames that rebuild a bin: an image or nothing, then tails in order. Immutable.
  *
  * Each bin in memory has a chain, so a frame takes only twelve bytes in it. The sum of the tails
  * is kept, because each commit asks for it. Sums are in raw bytes.
  */
final class Chain private (
    bin: Int,
    isImaged: Boolean,
    chunks: Array[Chunk],
    spans: Array[Long],
    val tailBytes: Long
) {
  import Chain._

  def imageBytes: Long = if (isImaged) rawBytesOf(0) else 0L
  def frameCount: Int = chunks.length
  def lastFile: Option[FileName] = chunks.lastOption.map(_.file)
  def heapBytes: Long = OwnBytes + 12L * frameCount // the chunks are shared
  def frames: Vector[Frame] = Vector.tabulate(frameCount)(i =>
    Frame(bin, isImaged && i == 0, chunks(i), atOf(spans(i)), rawBytesOf(i))
  )

  /** Returns the chain with `frame` added; an image starts a new chain. */
  def +(frame: Frame): Chain =
    if (frame.isImage) new Chain(frame.bin, true, Array(frame.chunk), Array(spanOf(frame)), 0)
    else
      new Chain(
        frame.bin,
        isImaged,
        chunks :+ frame.chunk,
        spans :+ spanOf(frame),
        tailBytes + frame.rawBytes
      )

  /** Whether the chain is one image and nothing else. */
  def isImage: Boolean = isImaged && frameCount == 1

  /** Returns the chain without its last frame, which must be a tail. */
  def init: Chain =
    new Chain(bin, isImaged, chunks.init, spans.init, tailBytes - rawBytesOf(frameCount - 1))

  private def rawBytesOf(i: Int): Long =
    if (chunks(i).more.isEmpty) spans(i) & 0xffffffffL else chunks(i).rawBytesOfAll

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

  private val OwnBytes = 72 // this object and its arrays' headers

  /** Where a frame lies in its chunk; of a chunk in several pieces it has all. */
  private def spanOf(frame: Frame): Long =
    if (frame.chunk.more.isEmpty) (frame.at.toLong << 32) | frame.rawBytes else 0L
  private def atOf(span: Long): Int = (span >>> 32).toInt
}
