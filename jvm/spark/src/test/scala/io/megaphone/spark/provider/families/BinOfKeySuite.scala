// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.plan.RoutingTable
import io.megaphone.spark.partitioning.RoutedPartitioning

/** The bin that the provider computes of a state key is the one that the exchange computed of the
  * row, whatever the key is made of.
  */
class BinOfKeySuite extends AnyFunSuite {
  private val bins = 256

  /** One worker a bin, so that the exchange's partition is its bin. */
  private val table = RoutingTable.roundRobin(bins, bins)
  private val operators = Seq(
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState"
  )
  private val random = new Random(5)
  private def times(value: => Any): Seq[Any] = Seq.fill(200)(value)
  private def text(s: String) = UTF8String.fromString(s)

  private val inner = new StructType().add("x", IntegerType).add("y", StringType)

  /** Types of keys, with values that are hard on a hash. */
  private val columns: Seq[(String, DataType, Seq[Any])] = Seq(
    ("boolean", BooleanType, Seq(true, false)),
    ("byte", ByteType, (Byte.MinValue to Byte.MaxValue).map(_.toByte)),
    ("short", ShortType, Seq[Short](0, -1, Short.MinValue, Short.MaxValue)),
    ("int", IntegerType, Seq(0, -1, Int.MinValue, Int.MaxValue) ++ times(random.nextInt())),
    ("long", LongType, Seq(0L, -1L, Long.MinValue, Long.MaxValue) ++ times(random.nextLong())),
    (
      "float",
      FloatType,
      Seq(
        0.0f,
        -0.0f,
        Float.NaN,
        java.lang.Float.intBitsToFloat(0x7fc00001),
        Float.NegativeInfinity,
        Float.MinPositiveValue
      ) ++ times(random.nextFloat())
    ),
    (
      "double",
      DoubleType,
      Seq(
        0.0,
        -0.0,
        Double.NaN,
        java.lang.Double.longBitsToDouble(0x7ff8000000000001L),
        Double.PositiveInfinity
      ) ++ times(random.nextDouble())
    ),
    (
      "small decimal",
      DecimalType(9, 2),
      Seq(Decimal("0.00"), Decimal("-1234567.89")).map(resized(_, 9, 2))
    ),
    (
      "large decimal",
      DecimalType(38, 18),
      Seq(Decimal("12345678901234567890.123456789012345678"), Decimal("-1")).map(resized(_, 38, 18))
    ),
    (
      "string",
      StringType,
      Seq("", "a", "A", "ß", "日本", "\u0000", "x" * 1000).map(text) ++ times(
        text(random.nextString(5))
      )
    ),
    (
      "string of the collation UNICODE",
      StringType("UNICODE"),
      Seq("", "a", "A", "ß", "e\u0301", "é").map(text) ++ times(text(random.nextString(5)))
    ),
    (
      "bytes",
      BinaryType,
      Seq(Array.emptyByteArray, Array[Byte](0), Array[Byte](-1, 0, 1)) ++ times {
        val b = new Array[Byte](random.nextInt(20)); random.nextBytes(b); b
      }
    ),
    ("date", DateType, Seq(0, -1, 20000)),
    ("timestamp", TimestampType, Seq(0L, -1L, 1700000000000000L) ++ times(random.nextLong())),
    ("timestamp without zone", TimestampNTZType, Seq(0L, 1700000000000001L)),
    ("interval", CalendarIntervalType, Seq(new CalendarInterval(1, 2, 3))),
    (
      "struct",
      inner,
      Seq(
        InternalRow(1, text("a")),
        InternalRow(null, null),
        InternalRow(null, text("a"))
      ) ++ times(InternalRow(random.nextInt(), text(random.nextString(3))))
    ),
    (
      "window",
      new StructType().add("start", TimestampType).add("end", TimestampType),
      times { val s = random.nextInt().toLong * 1000; InternalRow(s, s + 600000000L) }
    ),
    (
      "day-time interval",
      DayTimeIntervalType(),
      Seq(0L, -1L, 86400000000L) ++ times(random.nextLong())
    ),
    ("year-month interval", YearMonthIntervalType(), Seq(0, -1, 14)),
    (
      "struct in a struct",
      new StructType().add("inner", inner).add("z", DoubleType),
      Seq(InternalRow(null, -0.0), InternalRow(InternalRow(null, null), 0.0)) ++ times(
        InternalRow(InternalRow(random.nextInt(), text("a")), Double.NaN)
      )
    ),
    (
      "array",
      ArrayType(IntegerType),
      Seq(ArrayData.toArrayData(Array(1, 2)), ArrayData.toArrayData(Array.empty[Int]))
    ),
    (
      "array of strings",
      ArrayType(StringType),
      Seq(ArrayData.toArrayData(Array(null, text(""))), ArrayData.toArrayData(Array.empty[Any])) ++
        times(ArrayData.toArrayData(Array(text(random.nextString(3)), null)))
    ),
    (
      "array of structs",
      ArrayType(inner),
      Seq(ArrayData.toArrayData(Array(null, InternalRow(null, null)))) ++ times(
        ArrayData.toArrayData(Array(InternalRow(random.nextInt(), text("b"))))
      )
    ),
    ("nothing", NullType, Seq(null))
  )

  private def resized(d: Decimal, precision: Int, scale: Int): Decimal = {
    val copy = d.clone(); assert(copy.changePrecision(precision, scale)); copy
  }

  /** The exchange's bin of a row, by the expression that the exchange evaluates. */
  private def exchange(schema: StructType, positions: Seq[Int]): InternalRow => Int = {
    val keys = positions.map(i => BoundReference(i, schema(i).dataType, schema(i).nullable))
    val projection =
      UnsafeProjection.create(Seq(new RoutedPartitioning(keys, table).partitionIdExpression))
    row => projection(row).getInt(0)
  }

  private def binOf(
      operator: String,
      keys: StructType,
      store: String = "default",
      family: String = "default",
      spec: StructType => KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(_),
      specOf: String => Option[KeyStateEncoderSpec] = _ => None
  ): BinOfKey =
    new BinOfKey(PartitionKey.of(operator, store, family, spec(keys), specOf), bins, new KeyHashes)

  private def check(operator: String, keySchema: StructType, rows: Seq[InternalRow]): Set[Int] = {
    // The exchange sees the key's columns somewhere in a wider row.
    val wide = new StructType(
      Array(StructField("before", StringType)) ++ keySchema.fields ++ Array(
        StructField("after", LongType)
      )
    )
    val positions = keySchema.indices.map(_ + 1)
    val binOfRow = exchange(wide, positions)
    val toKey = UnsafeProjection.create(
      positions.map(i => BoundReference(i, wide(i).dataType, wide(i).nullable))
    )
    val binOfKey = binOf(operator, keySchema)
    rows.map { key =>
      val row =
        InternalRow.fromSeq(text(random.nextString(4)) +: key.toSeq(keySchema) :+ random.nextLong())
      val expected = binOfRow(row)
      assert(binOfKey(toKey(row)) == expected, s"for the key $key of $operator")
      expected
    }.toSet
  }

  for (operator <- operators; (name, dataType, values) <- columns)
    test(s"A key of type $name has one bin, to the exchange and to the provider of $operator.") {
      val schema = new StructType().add("k", dataType)
      val found = check(operator, schema, (values :+ null).map(InternalRow(_)))
      if (values.size > 100) assert(found.size > 20)
    }

  for ((name, dataType, values) <- columns)
    test(
      s"A key of type $name has one bin to the exchange, and with the start of a session behind " +
        "it, and so have all sessions of the key."
    ) {
      val key = new StructType().add("k", dataType)
      val started = key.add("sessionStart", TimestampType)
      val binOfRow = exchange(key, Seq(0))
      val (toKey, toStarted) = (UnsafeProjection.create(key), UnsafeProjection.create(started))
      val sessions = binOf(
        StatefulOperatorsUtils.SESSION_WINDOW_STATE_STORE_SAVE_EXEC_OP_NAME,
        started,
        spec = PrefixKeyScanStateEncoderSpec(_, 1)
      )
      (values :+ null).foreach { value =>
        val expected = binOfRow(InternalRow(value))
        assert(
          sessions(toStarted(InternalRow(value, random.nextLong()))) == expected,
          s"for the key $value"
        )
        assert(sessions.ofPrefix(toKey(InternalRow(value))) == expected, s"for the prefix $value")
      }
    }

  for ((name, dataType, values) <- columns)
    test(
      s"A key of type $name has one bin to the exchange and in all stores of a join, with and " +
        "without the index behind it."
    ) {
      val key = new StructType().add("k", dataType)
      val indexed = key.add("index", LongType)
      val binOfRow = exchange(key, Seq(0))
      val (toKey, toIndexed) = (UnsafeProjection.create(key), UnsafeProjection.create(indexed))
      for (side <- Seq("left", "right")) {
        val binOfKey = binOf("symmetricHashJoin", key, store = s"$side-keyToNumValues")
        val binOfIndexed = binOf("symmetricHashJoin", indexed, store = s"$side-keyWithIndexToValue")
        (values :+ null).foreach { value =>
          val expected = binOfRow(InternalRow(value))
          assert(binOfKey(toKey(InternalRow(value))) == expected, s"for the key $value")
          assert(
            binOfIndexed(toIndexed(InternalRow(value, random.nextLong()))) == expected,
            s"for the key $value"
          )
        }
      }
    }

  for ((name, dataType, values) <- columns)
    test(
      s"A key of type $name has one bin to the exchange and in all column families of a join, " +
        "with and without the time or the index behind it."
    ) {
      val key = new StructType().add("k", dataType)
      val timed = TimestampKeyStateEncoder.keySchemaWithTimestamp(key)
      val numbered = key.add("index", LongType)
      val binOfRow = exchange(key, Seq(0))
      def of(family: String, keys: StructType, spec: StructType => KeyStateEncoderSpec) = (
        binOf("symmetricHashJoin", keys, family = s"left-$family", spec = spec),
        UnsafeProjection.create(keys)
      )
      val (ofKey, toKey) = of("keyToNumValues", key, NoPrefixKeyStateEncoderSpec(_))
      val behind = Seq(
        of("keyWithIndexToValue", numbered, NoPrefixKeyStateEncoderSpec(_)),
        of("keyWithTsToValues", timed, TimestampAsPostfixKeyStateEncoderSpec(_)),
        of("tsWithKey", timed, TimestampAsPrefixKeyStateEncoderSpec(_))
      )
      (values :+ null).foreach { value =>
        val expected = binOfRow(InternalRow(value))
        assert(ofKey(toKey(InternalRow(value))) == expected, s"for the key $value")
        for ((binOfRow, toRow) <- behind)
          assert(
            binOfRow(toRow(InternalRow(value, random.nextLong()))) == expected,
            s"for the key $value"
          )
        assert(
          behind
            .map(_._1)
            .map(b => Option.when(b.isByPrefix)(b.ofPrefix(toKey(InternalRow(value))))) == Seq(
            None,
            Some(expected),
            None
          ),
          s"for the prefix $value"
        )
      }
    }

  for ((name, dataType, values) <- columns)
    test(
      s"A key of type $name has one bin to the exchange and in all column families of " +
        "transformWithState."
    ) {
      val key = new StructType().add("k", dataType)
      val binOfRow = exchange(key, Seq(0))
      val composite =
        new StructType().add("key", key).add("userKey", new StructType().add("u", StringType))
      val expiring = new StructType().add("expirationMs", LongType).add("elementKey", key)
      val expiringOfMap =
        new StructType().add("expirationMs", LongType).add("elementKey", composite)
      val timer = new StructType().add("key", key).add("expiryTimestampMs", LongType)
      val due = new StructType().add("expiryTimestampMs", LongType).add("key", key)
      def user = InternalRow(text(random.nextString(3)))
      def prefix(keys: StructType) = PrefixKeyScanStateEncoderSpec(keys, 1)
      def range(keys: StructType) = RangeKeyScanStateEncoderSpec(keys, Seq(0))
      type Spec = StructType => KeyStateEncoderSpec
      val families: Seq[(String, StructType, Spec, InternalRow => InternalRow)] = Seq(
        ("count", key, NoPrefixKeyStateEncoderSpec(_), identity),
        ("$min_list", key, NoPrefixKeyStateEncoderSpec(_), identity),
        ("$count_list", key, NoPrefixKeyStateEncoderSpec(_), identity),
        ("$rowCounter_list", key, NoPrefixKeyStateEncoderSpec(_), identity),
        ("map", composite, prefix, k => InternalRow(k, user)),
        ("$ttl_count", expiring, range, k => InternalRow(random.nextLong(), k)),
        (
          "$ttl_map",
          expiringOfMap,
          range,
          k => InternalRow(random.nextLong(), InternalRow(k, user))
        ),
        ("$eventTimers_keyToTimestamp", timer, prefix, k => InternalRow(k, random.nextLong())),
        ("$procTimers_timestampToKey", due, range, k => InternalRow(random.nextLong(), k))
      )
      for ((family, keys, spec, row) <- families) {
        val others = families.map { case (other, keys, spec, _) => other -> spec(keys) }.toMap
        val binOfKey =
          binOf("transformWithStateExec", keys, family = family, spec = spec, specOf = others.get)
        val toKey = UnsafeProjection.create(keys)
        val toPrefix = UnsafeProjection.create(new StructType().add("key", key))
        (values :+ null).foreach { value =>
          val expected = binOfRow(InternalRow(value))
          assert(
            binOfKey(toKey(row(InternalRow(value)))) == expected,
            s"for the key $value of $family"
          )
          if (keys.head.name == "key")
            assert(
              binOfKey.ofPrefix(toPrefix(InternalRow(InternalRow(value)))) == expected,
              s"for the prefix $value of $family"
            )
        }
      }
    }

  test("A key of many columns has one bin, nulls anywhere.") {
    val schema = new StructType(columns.map { case (name, dataType, _) =>
      StructField(name, dataType)
    }.toArray)
    val rows = Seq.fill(500)(InternalRow.fromSeq(columns.map { case (_, _, values) =>
      if (random.nextInt(4) == 0) null else values(random.nextInt(values.size))
    }))
    operators.foreach(o => assert(check(o, schema, rows).size > 100))
  }

  test("Both zeros, and all that is not a number, are one key to the hash.") {
    val schema = new StructType().add("k", DoubleType)
    def bin(d: Double) =
      binOf("stateStoreSave", schema)(UnsafeProjection.create(schema)(InternalRow(d)))
    assert(bin(0.0) == bin(-0.0))
    assert(bin(Double.NaN) == bin(java.lang.Double.longBitsToDouble(0x7ff8000000000001L)))
  }

  test("Whether a column may be null makes no difference.") {
    val may = new StructType().add("k", LongType, nullable = true)
    val mayNot = new StructType().add("k", LongType, nullable = false)
    (0L until 500L).foreach { k =>
      val row = UnsafeProjection.create(may)(InternalRow(k)).copy()
      assert(binOf("dedupe", may)(row) == binOf("dedupe", mayNot)(row))
    }
  }
}
