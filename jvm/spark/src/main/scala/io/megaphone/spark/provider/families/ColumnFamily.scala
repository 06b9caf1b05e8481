// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.log.RowTime
import io.megaphone.log.record.Cursor
import io.megaphone.log.record.Record
import io.megaphone.runtime.DueScan
import io.megaphone.spark.provider.rows.{
  ChecksummedValues, EncodedKeys, EncodedValues, MultiValueCodec, PlainRows, RowChecksums, RowCodec
}

/** A column family of a store: its number in the logs, the codecs of its rows, and the bin of a
  * key.
  *
  * Threads: one.
  *
  * @param number
  *   the family's number in log records; numbers in the upper half keep keys in order
  * @param checksums
  *   if the rows have checksums
  */
private[provider] final class ColumnFamily(
    val name: String,
    val number: Int,
    val keys: RowCodec,
    val values: RowCodec,
    val binOf: BinOfKey,
    val kind: ColumnFamilySpec,
    checksums: Option[RowChecksums]
) {
  private val encoder = keys match { case e: EncodedKeys => e.encoder; case _ => null }
  private val several = values match {
    case many: MultiValueCodec if kind.isMultiValued => many; case _ => null
  }
  private val verifier = checksums.orNull // read for every row

  /** Whether a scan of all keys is in order over all bins, as Spark expects of a family that it
    * asks for keys due by time.
    */
  val isSorted: Boolean = kind.keys match {
    case _: RangeKeyScanStateEncoderSpec | _: TimestampAsPrefixKeyStateEncoderSpec => true
    case _ => false
  }

  def hasPrefix: Boolean = encoder != null && encoder.supportPrefixKeyScan
  def hasRange: Boolean = encoder != null && encoder.supportsRangeScan
  def canDeleteRange: Boolean = encoder != null && encoder.supportsDeleteRange

  /** The common first bytes of all keys with these first columns. */
  def bytesOfPrefix(prefix: UnsafeRow): Array[Byte] = encoder.encodePrefixKey(prefix)
  def bytesOfKey(key: UnsafeRow): Array[Byte] = encoder.encodeKey(key)

  /** Whether two keys differ only in the time at their end, so that all keys between them are in
    * one bin.
    */
  def isOneKey(one: Array[Byte], other: Array[Byte]): Boolean = kind.keys match {
    case _: TimestampAsPostfixKeyStateEncoderSpec if binOf.isByPrefix =>
      val length = one.length - ColumnFamily.TimeBytes
      length == other.length - ColumnFamily.TimeBytes && java.util.Arrays.equals(
        one,
        0,
        length,
        other,
        0,
        length
      )
    case _ => false
  }

  /** Where the rows of this family have a time; None if it is neither what the family is ordered by
    * nor in a row as Spark has it in memory.
    */
  def timeAt(scan: DueScan): Option[RowTime] =
    if (isSorted) Option.when(scan.isInKey && scan.column == 0)(RowTime.InOrder(number))
    else
      (if (scan.isInKey) keys.rowAt else values.rowAt)
        .filter(_ => several == null)
        .map {
          RowTime.InRow(number, scan.isInKey, _, scan.columns, scan.column, scan.field, scan.never)
        }

  /** Throws Spark's error if the record is verified and its checksum does not match. */
  def verify(found: Cursor): Unit = if (verifier != null) verifier.verify(found)

  /** The values in a byte range: one, or several in a multi-valued family. */
  def valuesOf(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow] =
    if (several != null) several.decodeAll(bytes, offset, length)
    else Iterator(values.decode(bytes, offset, length))

  /** The codec of a multi-valued family. Throws IllegalStateException for any other family. */
  def many: MultiValueCodec =
    if (several != null) several
    else
      throw new IllegalStateException(
        s"Column family $name holds one value to a key: it was created without " +
          "useMultipleValuesPerKey."
      )
}

private[provider] object ColumnFamily {
  private val TimeBytes = 8

  /** The two log numbers of the family at a place: for unordered and for ordered keys. The default
    * family has place 0.
    */
  def numbersOf(place: Int): Seq[Int] = {
    if (place >= Record.OrderedFamilyMin)
      throw new UnsupportedOperationException(
        s"A state store can have ${Record.OrderedFamilyMin - 1} column families over its life, " +
          s"and this would be number $place; start from a new checkpoint."
      )
    Seq(place, Record.OrderedFamilyMin + place)
  }

  def numberOf(place: Int, keys: KeyStateEncoderSpec): Int = keys match {
    case _: NoPrefixKeyStateEncoderSpec => numbersOf(place).head
    case _ => numbersOf(place).last
  }

  /** Creates a family and its codecs. Single-valued rows are stored unchanged unless schema
    * evolution is on.
    */
  def of(
      name: String,
      place: Int,
      spec: ColumnFamilySpec,
      schemas: Option[StateSchemaProvider],
      checksums: Option[RowChecksums],
      binOf: BinOfKey
  ): ColumnFamily = {
    lazy val encoder = schemas match {
      case Some(known) => new AvroStateEncoder(spec.keys, spec.values, Some(known), name)
      case None => new UnsafeRowDataEncoder(spec.keys, spec.values)
    }
    val keys = spec.keys match {
      case plain: NoPrefixKeyStateEncoderSpec if schemas.isEmpty =>
        new PlainRows(plain.keySchema.length)
      case other => new EncodedKeys(other.toEncoder(encoder, useColumnFamilies = true))
    }
    def single = if (schemas.isDefined)
      new EncodedValues(new SingleValueStateEncoder(encoder, spec.values))
    else new PlainRows(spec.values.length)
    val values =
      if (checksums.isDefined) new ChecksummedValues(keys, single)
      else if (spec.isMultiValued)
        new EncodedValues(new MultiValuedStateEncoder(encoder, spec.values, delimiterSize = 0))
      else single
    new ColumnFamily(name, numberOf(place, spec.keys), keys, values, binOf, spec, checksums)
  }
}
