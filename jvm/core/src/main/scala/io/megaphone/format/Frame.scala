// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** What one file has of one bin: the tail of a batch, or an image of the whole bin after it, compressed. */
final case class Frame(bin: Int, isImage: Boolean, offset: Long, storedBytes: Int, rawBytes: Int, checksum: Int)

/** A frame in a file, found from anywhere. */
final case class FrameRef(file: FileName, writer: WriterId, frame: Frame)

/** The frames that rebuild a bin: an image or nothing, then tails in order. */
final case class Chain(refs: Vector[FrameRef]) {
  def +(ref: FrameRef): Chain = if (ref.frame.isImage) Chain(Vector(ref)) else Chain(refs :+ ref)
  def frameCount: Int = refs.size
  def imageBytes: Long = refs.iterator.filter(_.frame.isImage).map(_.frame.rawBytes.toLong).sum
  def tailBytes: Long = refs.iterator.filterNot(_.frame.isImage).map(_.frame.rawBytes.toLong).sum
}

object Chain {
  val Empty: Chain = Chain(Vector.empty)
}
