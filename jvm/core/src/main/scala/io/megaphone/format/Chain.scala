// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** The frames that rebuild a bin: an image or nothing, then tails in order. There is one for each
  * bin in memory: what is known of a frame takes twelve bytes in it. The sum of the tails is kept,
  * for each commit asks for it. Sums are of raw bytes.
  */
final class Chain private (
    bin: Int,
    isImaged: Boolean,
    chunks: Array[Chunk],
    spans: Array[Long],
    val tailBytes: Long
) {
  import Chain._

  def imageBytes: Long = if (isImaged) rawBytesOf(spans(0)).toLong else 0L
  def frameCount: Int = chunks.length
  def lastFile: Option[FileName] = chunks.lastOption.map(_.file)
  def heapBytes: Long = OwnBytes + 12L * frameCount // the chunks are shared
  def frames: Vector[Frame] = Vector.tabulate(frameCount)(i =>
    Frame(bin, isImaged && i == 0, chunks(i), atOf(spans(i)), rawBytesOf(spans(i)))
  )

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

  /** Whether it has nothing but an image. */
  def isImage: Boolean = isImaged && frameCount == 1

  /** The chain before its last frame, a tail, was added. */
  def init: Chain =
    new Chain(bin, isImaged, chunks.init, spans.init, tailBytes - rawBytesOf(spans.last))

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
