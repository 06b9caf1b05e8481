// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import scala.util.{Random, Try}

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

import io.megaphone.spark.query.PluginSession

/** Any sequence of a store's operations gives on bins what it gives on Spark's RocksDB provider,
  * the only one with the whole contract: the same rows, in the same order where keys have one, and
  * an error where it has one.
  */
class StoreContractSuite extends PluginSession {
  import StoreContractSuite._

  private val text = new StructType().add("s", StringType)
  private val pair = new StructType().add("a", StringType).add("b", LongType)
  private val ordered = new StructType()
    .add("name", StringType)
    .add("long", LongType)
    .add("int", IntegerType)
    .add("short", ShortType)
    .add("byte", ByteType)
    .add("double", DoubleType)
    .add("float", FloatType)
    .add("flag", BooleanType) // never scanned by: Spark's encoder loses it
  private val timed = TimestampKeyStateEncoder.keySchemaWithTimestamp(text)

  private val families = Seq(
    Kind("plain", pair, NoPrefixKeyStateEncoderSpec(pair)),
    Kind("prefixed", pair, PrefixKeyScanStateEncoderSpec(pair, 1), prefix = Some(text)),
    Kind(
      "byLong",
      ordered,
      RangeKeyScanStateEncoderSpec(ordered, Seq(1)),
      prefix = Some(StructType(Seq(ordered(1)))),
      hasRange = true
    ),
    Kind("byMany", ordered, RangeKeyScanStateEncoderSpec(ordered, Seq(2, 5, 3)), hasRange = true),
    Kind("byOthers", ordered, RangeKeyScanStateEncoderSpec(ordered, Seq(6, 4, 1)), hasRange = true),
    Kind(
      "timeFirst",
      timed,
      TimestampAsPrefixKeyStateEncoderSpec(timed),
      hasRange = true,
      isMany = true
    ),
    Kind(
      "timeLast",
      timed,
      TimestampAsPostfixKeyStateEncoderSpec(timed),
      prefix = Some(text),
      hasRange = true,
      isMany = true
    ),
    Kind("many", text, NoPrefixKeyStateEncoderSpec(text), isMany = true)
  )

  private def longs(random: Random): Long =
    Seq(0L, -1L, 1L, Long.MinValue, Long.MaxValue, random.nextInt(20).toLong - 10)(
      random.nextInt(6)
    )
  private def valueOf(dataType: DataType, random: Random): Any = dataType match {
    case StringType => Seq("", "a", "aa", "b", "ß")(random.nextInt(5))
    case LongType => longs(random)
    case IntegerType =>
      Seq(0, -1, Int.MinValue, Int.MaxValue, random.nextInt(9) - 4)(random.nextInt(5))
    case ShortType => (random.nextInt(5) - 2).toShort
    case ByteType => (random.nextInt(5) - 2).toByte
    case DoubleType =>
      Seq(
        0.0,
        1.5,
        -1.5,
        Double.NegativeInfinity,
        Double.PositiveInfinity,
        Double.NaN,
        Double.MinPositiveValue
      )(random.nextInt(7))
    case FloatType =>
      Seq(0.0f, 1.5f, -1.5f, Float.NegativeInfinity, Float.NaN, Float.MaxValue)(random.nextInt(6))
    case _ => random.nextBoolean()
  }

  private val projections = scala.collection.mutable.Map.empty[StructType, UnsafeProjection]
  private def row(schema: StructType, random: Random): UnsafeRow = {
    val cells = schema.map(f =>
      if (f.nullable && random.nextInt(10) == 0) null
      else CatalystTypeConverters.convertToCatalyst(valueOf(f.dataType, random))
    )
    projections
      .getOrElseUpdate(schema, UnsafeProjection.create(schema))(InternalRow.fromSeq(cells))
      .copy()
  }

  private def numbered(number: Long): UnsafeRow =
    projections
      .getOrElseUpdate(ordered, UnsafeProjection.create(ordered))(
        InternalRow(null, number, null, null, null, null, null, null)
      )
      .copy()

  private def show(schema: StructType, row: UnsafeRow): Any =
    if (row == null) null else Row.fromSeq(row.copy().toSeq(schema)).toString

  /** One operation, made of the dice, as it shows in its result. */
  private def operate(store: StateStore, random: Random): Any = {
    val kind = families(random.nextInt(families.size))
    def key = row(kind.keys, random)
    def value = row(text, random)
    def pairs(all: StateStoreIterator[UnsafeRowPair], isSorted: Boolean = true): Seq[Any] = {
      val shown = all.map(p => (show(kind.keys, p.key), show(text, p.value))).toVector
      all.close()
      if (isSorted) shown else shown.sortBy(_.toString)
    }
    random.nextInt(if (kind.isMany) 13 else 9) match {
      case 0 | 1 | 2 =>
        if (kind.isMany) store.putList(key, Array.fill(1 + random.nextInt(3))(value), kind.name)
        else store.put(key, value, kind.name)
      case 3 => show(text, store.get(key, kind.name))
      case 4 => store.remove(key, kind.name)
      case 5 => store.keyExists(key, kind.name)
      case 6 =>
        val (from, until) =
          (Option.when(random.nextInt(4) > 0)(key), Option.when(random.nextInt(4) > 0)(key))
        if (!kind.hasRange) None
        else if (kind.isMany) pairs(store.rangeScanWithMultiValues(from, until, kind.name))
        else pairs(store.rangeScan(from, until, kind.name))
      case 7 =>
        kind.prefix.map { p =>
          if (kind.isMany) pairs(store.prefixScanWithMultiValues(row(p, random), kind.name))
          else pairs(store.prefixScan(row(p, random), kind.name))
        }
      case 8 =>
        if (random.nextInt(4) > 0)
          store.multiGet(Array.fill(3)(key), kind.name).map(show(text, _)).toVector
        else if (kind.isMany) pairs(store.iteratorWithMultiValues(kind.name), kind.isInOrder)
        else if (kind.name == "byLong" && random.nextBoolean()) {
          val bounds = Seq.fill(2)(random.nextInt(21).toLong - 10).sorted.map(numbered)
          store.deleteRange(bounds.head, bounds.last, kind.name)
        } else pairs(store.iterator(kind.name), kind.isInOrder)
      case 9 | 10 => store.merge(key, value, kind.name)
      case 11 => store.mergeList(key, Array.fill(1 + random.nextInt(3))(value), kind.name)
      case 12 => store.valuesIterator(key, kind.name).map(show(text, _)).toVector
    }
  }

  private def create(store: StateStore): Unit =
    families.foreach(k =>
      store.createColFamilyIfAbsent(
        k.name,
        k.keys,
        text,
        k.spec,
        useMultipleValuesPerKey = k.isMany
      )
    )

  private def withStores(body: Seq[TaskStores] => Unit): Unit = {
    val stores =
      Seq(classOf[io.megaphone.BinnedStateStoreProvider], classOf[RocksDBStateStoreProvider])
        .map(new TaskStores(spark, _, text, text, families.map(_.name)))
    try body(stores)
    finally stores.foreach(_.close())
  }

  for (
    seed <- 1 to 8; hasChecksums = seed > 6;
    checked = if (hasChecksums) ", with checksums" else ""
  )
    test(
      "Two thousand operations in twenty batches of three runs, one batch in four given up, by " +
        s"the dice's seed $seed$checked.",
      isInShortRun = seed > 4
    ) {
      withConf("spark.sql.streaming.stateStore.rowChecksum.enabled" -> hasChecksums.toString)(
        withStores { stores =>
          val logs = stores.map { stores =>
            val random = new Random(seed)
            var version = 0L
            Vector
              .tabulate(20) { batch =>
                if (batch == 8 || batch == 15) stores.restart()
                val store = stores.open(version)
                create(store)
                val results = Vector.tabulate(100)(i => (batch, i, operate(store, random)))
                if (random.nextInt(4) == 0) store.abort() else { store.commit(); version += 1 }
                results
              }
              .flatten
          }
          logs.head.zip(logs.last).foreach { case (ours, sparks) => assert(ours == sparks) }
          assert(
            logs.head.map(_._3).distinct.size > 100,
            "the results hardly differ, so they show nothing"
          )
        }
      )
    }

  test("What cannot be asked for is refused, as by Spark's provider.") {
    withStores { stores =>
      val errors = stores.map { stores =>
        val store = stores.open(0)
        create(store)
        val (key, value) = (row(text, new Random(1)), row(text, new Random(2)))
        def condition(body: => Any): String = Try(body).failed.toOption match {
          case Some(e: org.apache.spark.SparkThrowable) => e.getCondition
          case Some(e) => e.getClass.getSimpleName
          case None => "nothing"
        }
        val open = Seq(
          condition(store.get(key, "unknown")),
          condition(store.put(key, value, " spaces ")),
          condition(store.get(null, "plain")),
          condition(store.put(key, null, "many")),
          condition(store.putList(key, null, "many")),
          condition(store.merge(key, null, "many")),
          condition(store.mergeList(key, Array(value, null), "many")),
          condition(store.merge(row(pair, new Random(1)), value, "plain")),
          condition(store.valuesIterator(row(pair, new Random(1)), "plain")),
          condition(store.iteratorWithMultiValues("plain")),
          condition(store.prefixScan(key, "plain")),
          condition(store.rangeScan(None, None, "plain")),
          condition(store.deleteRange(row(pair, new Random(1)), row(pair, new Random(2)), "plain")),
          condition(
            store.createColFamilyIfAbsent("", text, text, NoPrefixKeyStateEncoderSpec(text))
          ),
          condition(
            store.createColFamilyIfAbsent("$own", text, text, NoPrefixKeyStateEncoderSpec(text))
          ),
          condition(
            store.createColFamilyIfAbsent("default", text, text, NoPrefixKeyStateEncoderSpec(text))
          ),
          condition(store.removeColFamilyIfExists("default"))
        )
        val removed =
          (
            store.allColumnFamilyNames,
            store.removeColFamilyIfExists("plain"),
            store.removeColFamilyIfExists("plain"),
            condition(store.iterator("plain"))
          )
        store.commit()
        (open, removed)
      }
      assert(errors.head == errors.last)
    }
  }

  test("A family that was removed is empty when it is created again.") {
    withStores { stores =>
      stores.foreach { stores =>
        val random = new Random(9)
        val first = stores.open(0)
        create(first)
        for (_ <- 0 until 50) first.put(row(ordered, random), row(text, random), "byLong")
        first.commit()
        val second = stores.open(1)
        assert(second.removeColFamilyIfExists("byLong"))
        second.commit()
        val third = stores.open(2)
        create(third)
        assert(third.iterator("byLong").isEmpty)
        third.abort()
      }
    }
  }
}

object StoreContractSuite {

  private final case class Kind(
      name: String,
      keys: StructType,
      spec: KeyStateEncoderSpec,
      prefix: Option[StructType] = None,
      hasRange: Boolean = false,
      isMany: Boolean = false
  ) {
    val isInOrder: Boolean = spec match {
      case _: RangeKeyScanStateEncoderSpec | _: TimestampAsPrefixKeyStateEncoderSpec => true
      case _ => false
    }
  }
}
