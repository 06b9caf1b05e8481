// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.io.ByteArrayOutputStream
import java.util.UUID

import scala.collection.mutable

import io.megaphone.format.{Chain, Compression, DeltaFile, FileName, Footer, StateName, WriterId}

/** Writes the parts of a block, each a delta file in memory with about `partBytes` of records.
  *
  *   1. A part has the frames of some bins. A bin that is too large for one has frames in several,
  *      in order.
  *   1. The footer of a part lists the chain and the key count of each bin that is complete with
  *      it.
  *   1. Part 0 is published last. So who finds it finds all.
  *   1. All parts have one writer id. Another attempt may publish a block of the same name whose
  *      records are in another order; its parts do not fit to these.
  *
  * Threads: one.
  *
  * @param base
  *   the name that the records apply to; for images the name of `file`
  * @param publish
  *   is called with the number and the bytes of each part
  */
final private[transfer] class BlockParts(
    file: FileName,
    base: StateName,
    compression: Compression,
    partBytes: Int,
    publish: (Int, Array[Byte]) => Unit
) {
  import BlockParts._

  private val writerId = {
    val id = UUID.randomUUID
    WriterId(id.getMostSignificantBits, id.getLeastSignificantBits)
  }
  private var number = 0
  private var first: Array[Byte] = _ // part 0, once it is written
  private var rawBytes = 0L // of the part that is being written
  private val chains = mutable.Map.empty[Int, Chain]
  private val keyCounts = mutable.Map.empty[Int, Long]
  private var out: ByteArrayOutputStream = _
  private var writer: DeltaFile.Writer = _ // null between two parts

  /** Adds a bin.
    *
    * @param foreachPiece
    *   calls a function with the records of the bin, piece by piece; an image has a frame even if
    *   there are none
    */
  def add(bin: Int, isImage: Boolean, chain: Chain, keyCount: Long)(
      foreachPiece: ((Array[Byte], Int) => Unit) => Unit
  ): Unit = {
    var isBegun = false
    def frame(records: Array[Byte], length: Int): Unit = {
      if (rawBytes > 0 && rawBytes + length > partBytes) endPart()
      begin()
      writer.frame(bin, isImage && !isBegun, records, length)
      rawBytes += length
      isBegun = true
    }
    foreachPiece(frame)
    if (isImage && !isBegun) frame(Array.emptyByteArray, 0)
    chains(bin) = chain
    keyCounts(bin) = keyCount
  }

  /** Publishes what is left. */
  def end(): Unit = {
    endPart()
    publish(0, first)
  }

  private def begin(): Unit = if (writer == null) {
    out = new ByteArrayOutputStream(1 << 12)
    writer = new DeltaFile.Writer(out, compression, file, writerId)
  }

  private def endPart(): Unit = {
    begin()
    writer.finish { frames =>
      Footer(
        file,
        writerId,
        base,
        0,
        0,
        frames,
        chains.toMap,
        frames.map(_.bin -> Incomplete).toMap ++ keyCounts,
        Vector.empty,
        Vector.empty
      )
    }
    if (number == 0) first = out.toByteArray else publish(number, out.toByteArray)
    number += 1
    rawBytes = 0
    chains.clear()
    keyCounts.clear()
    writer = null
  }
}

private object BlockParts {

  /** The key count of a bin that is not complete yet: nobody compares it. */
  val Incomplete = 0L
}
