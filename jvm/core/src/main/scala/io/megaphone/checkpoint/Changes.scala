// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import io.megaphone.format.{DeltaFile, Frame}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.Records
import io.megaphone.log.record.Cursor
import io.megaphone.log.record.Record
import io.megaphone.log.record.Words

/** One change that a commit made to a bin: it set a key to a value, removed the key, or lengthened
  * its value. Key and value are stretches of `bytes`; a removal has no value.
  *
  * @param kind
  *   one of the kinds of [[Record]]
  */
final case class Change(
    family: Int,
    kind: Int,
    bytes: Array[Byte],
    keyOffset: Int,
    keyBytes: Int,
    valueOffset: Int,
    valueBytes: Int
)

/** Finds the changes that a commit made to a bin, by the frame that it wrote.
  *
  *   1. A tail has the changes themselves.
  *   1. An image replaced a tail, so the changes are its differences from the bin before. A value
  *      that was set to the same bytes is not among them. A value that begins with the old bytes
  *      counts as lengthened.
  */
object Changes {

  /** @param records
    *   the frame's records, piece by piece
    * @param before
    *   the bin before the commit; evaluated only if the frame is an image
    */
  def of(frame: Frame, records: Vector[Array[Byte]], before: => BinLog): Vector[Change] =
    if (!frame.isImage) records.flatMap(changes)
    else {
      val old = before
      val now = new BinLog
      records.foreach(piece => now.apply(piece, 0, piece.length))
      val was = new Cursor
      val set = records
        .flatMap(changes)
        .flatMap(c =>
          if (old.find(c.family, c.bytes, c.keyOffset, c.keyBytes, was)) since(was, c) else Some(c)
        )
      val gone = Records
        .copied(old.foreachImagePiece(DeltaFile.PieceBytes))
        .flatMap(changes)
        .filterNot(c => now.has(c.family, c.bytes, c.keyOffset, c.keyBytes))
        .map(_.copy(kind = Record.Remove, valueBytes = 0))
      gone ++ set
    }

  private def changes(records: Array[Byte]): Vector[Change] = {
    val all = Vector.newBuilder[Change]
    Records.foreach(records, 0, records.length) { (at, header) =>
      val keyAt = at + Record.HeaderBytes
      val keyBytes = Record.keyBytes(header)
      all += Change(
        Record.family(header),
        Record.kind(header),
        records,
        keyAt,
        keyBytes,
        keyAt + Record.padded(keyBytes),
        Record.valueBytes(header)
      )
    }
    all.result()
  }

  /** The change from an old value to a new one; None if they are the same. */
  private def since(old: Cursor, c: Change): Option[Change] = {
    val added = c.valueBytes - old.valueBytes
    val isLonger = added >= 0 && Words.compare(
      old.bytes,
      old.valueOffset,
      old.valueBytes,
      c.bytes,
      c.valueOffset,
      old.valueBytes
    ) == 0
    if (!isLonger) Some(c)
    else
      Option.when(added > 0)(
        c.copy(
          kind = Record.Append,
          valueOffset = c.valueOffset + old.valueBytes,
          valueBytes = added
        )
      )
  }
}
