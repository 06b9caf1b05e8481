// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.megaphone.format.{BytesSource, Chain, DeltaFile}
import io.megaphone.format.StoreId
import io.megaphone.format.WorkerId
import io.megaphone.log.BinLog
import io.megaphone.log.record.Cursor
import io.megaphone.log.record.Record
import io.megaphone.plan.Operator
import io.megaphone.spark.checkpoint.Lz4
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.provider.BinnedRows
import io.megaphone.spark.provider.families.{
  ColumnFamilies, ColumnFamily, ColumnFamilyRegistry, ColumnFamilySpec
}
import io.megaphone.spark.query.{FedStream, PluginSession}
import io.megaphone.state.Holding

/** Rows with a checksum each: damage is found by whatever reads them, and only who asks for
  * checksums has them.
  */
class RowChecksumSuite extends PluginSession {
  import RowChecksumSuite._

  override protected def settings: Map[String, String] = Map("spark.megaphone.bins" -> "8")

  private implicit val encoder: Encoder[Long] = Encoders.scalaLong

  private def checksums(ratio: Long = 1): Some[RowChecksums] = Some(
    new RowChecksums("store", ratio)
  )

  /** Whether a read ends with Spark's error. */
  private def isFound(read: => Any): Boolean =
    try { read; false }
    catch { case e: SparkThrowable if e.getCondition == Condition => true }

  /** A store of one row, or one key with two values, in one of its families. */
  private def storeOfOne(family: String, kept: Option[RowChecksums]): Store = {
    val store = new Store(kept)
    if (Kinds(family).isMultiValued)
      store.rows.putAll(store.of(family), key(1), Seq(value(1), value(2)))
    else store.rows.put(store.of(family), key(1), value(1))
    store
  }

  private def readByKey(store: Store, family: String): Any =
    if (Kinds(family).isMultiValued) store.rows.valuesOf(store.of(family), key(1)).toVector
    else store.rows.get(store.of(family), key(1))
  private def readAll(store: Store, family: String): Any =
    if (Kinds(family).isMultiValued) store.rows.iteratorOfMany(store.of(family)).size
    else store.rows.iterator(store.of(family)).size

  test(
    "Rows are read as without checksums: by key, in scans, by prefix, by range, several to a " +
      "key, and those that were removed."
  ) {
    val stores = Seq(checksums(), None).map(kept => new Store(kept))
    stores.foreach(_.fill())
    val read = stores.map(_.shown)
    assert(read.head == read.last)
    assert(read.head.count(_.endsWith(": null")) == Kinds.size)
  }

  for (family <- Kinds.keys.toSeq.sorted)
    test(s"A bit that is wrong in a key or a value is found, in the family $family.") {
      val store = storeOfOne(family, checksums())
      val at = store.only(family)
      val inKey = at.keyOffset until at.keyOffset + at.keyBytes
      val inValue = at.valueOffset until at.valueOffset + at.valueBytes
      for (byte <- inKey ++ inValue; bit <- 0 until 8) {
        flip(at.bytes, byte, bit)
        assert(isFound(readAll(store, family)), s"at bit $bit of byte ${byte - at.keyOffset}")
        if (inValue.contains(byte))
          assert(isFound(readByKey(store, family)), s"at bit $bit of byte ${byte - at.keyOffset}")
        flip(at.bytes, byte, bit)
      }
      assert(!isFound(readAll(store, family)) && !isFound(readByKey(store, family)))
    }

  test("Of the rows that are read, one in as many is verified as the ratio says.") {
    for (
      (ratio, expected) <- Seq(
        0L -> Seq(),
        1L -> Seq(1, 2, 3, 4, 5, 6),
        2L -> Seq(2, 4, 6),
        3L -> Seq(3, 6)
      )
    ) {
      val store = storeOfOne("plain", checksums(ratio))
      val at = store.only("plain")
      flip(at.bytes, at.valueOffset + at.valueBytes - 1, 0)
      assert(
        (1 to 6).filter(_ => isFound(readByKey(store, "plain"))) == expected,
        s"with the ratio $ratio"
      )
    }
  }

  test("A checksum takes eight bytes a value with its length, and none where there are none.") {
    val rows = Seq(1, 2).map(value(_).getSizeInBytes)
    def valueBytes(family: String, kept: Option[RowChecksums]): Int =
      storeOfOne(family, kept).only(family).valueBytes
    assert(
      valueBytes("plain", None) == rows.head && valueBytes("plain", checksums()) == rows.head + 8
    )
    // Without them, too, a value among several has a length, and Spark's version of its encoding.
    assert(
      valueBytes("many", None) == rows.map(5 + _).sum && valueBytes("many", checksums()) == rows
        .map(8 + _)
        .sum
    )
  }

  test(
    "What is loaded is verified whole, whatever the ratio: images, and tails with what was " +
      "lengthened and removed."
  ) {
    val all = checksums(ratio = 0).value
    val store = new Store(checksums())
    store.fill()
    val records = store.logs.flatMap(log => Seq(log.image(), log.tail().toBytes)).filter(_.nonEmpty)
    assert(records.nonEmpty && !records.exists(r => isFound(all.verifyAll(r))))

    val without = new Store(None)
    without.fill()
    assert(without.logs.map(_.image()).filter(_.nonEmpty).forall(r => isFound(all.verifyAll(r))))

    val image = storeOfOne("plain", checksums()).logs.map(_.image()).find(_.nonEmpty).get
    for (byte <- Record.HeaderBytes until image.length; bit <- 0 until 8) {
      flip(image, byte, bit)
      assert(isFound(all.verifyAll(image)), s"at bit $bit of byte $byte")
      flip(image, byte, bit)
    }
  }

  /** The records of all frames in a checkpoint. */
  private def recordsIn(checkpoint: Path): Seq[Array[Byte]] = {
    val files = Files.walk(checkpoint.resolve("state"))
    try
      files.iterator.asScala
        .filter(_.toString.endsWith(".delta"))
        .flatMap { file =>
          val reader =
            new DeltaFile.Reader(new BytesSource(file.toString, Files.readAllBytes(file)))
          reader.footer.frames.map(reader.records(_, Lz4.All))
        }
        .filter(_.nonEmpty)
        .toVector
    finally files.close()
  }

  private def counted(rows: DataFrame): DataFrame = rows.toDF("k").groupBy("k").count()

  for (isOn <- Seq(true, false))
    test(
      s"A query that has begun ${if (isOn) "with" else "without"} checksums goes on so, through " +
        "moves and starts, whatever is set then; so do readers.",
      isInShortRun = false
    ) {
      val fed = new FedStream[Long](spark)
      val checkpoint = folder("checkpoint")
      def feed(): Unit = fed.feed((0L until 40L).map(_ * (1 + fed.count % 3)))
      for ((setting, workers) <- Seq(isOn -> 5, !isOn -> 2))
        withConf(Enabled -> setting.toString, Ratio -> "1") {
          val running = start(counted(fed.stream.toDF()), "update", checkpoint.toString)
          feed()
          running.query.processAllAvailable()
          running.rescale(
            workers,
            () => feed(),
            if (setting) "prepared" else "direct",
            strategy = "all-at-once"
          )
          feed()
          running.query.processAllAvailable()
          running.stop()
        }
      val records = recordsIn(checkpoint)
      val all = checksums().value
      assert(records.nonEmpty && records.forall(r => isFound(all.verifyAll(r)) != isOn))
      for (setting <- Seq(true, false)) withConf(Enabled -> setting.toString) {
        val read =
          spark.read.format("statestore").load(checkpoint.toString).selectExpr("key.*", "value.*")
        assert(sorted(read.collect()) == sorted(counted(fed.batch.toDF()).collect()))
      }
    }

  test(
    "A bit that flips in an executor's memory ends the query when its row is read, with Spark's " +
      "error."
  ) {
    withConf(Enabled -> "true", Ratio -> "1") {
      val fed = new FedStream[Long](spark)
      val running = start(counted(fed.stream.toDF()), "update")
      def feed(): Unit = { fed.feed(0L until 20L); running.query.processAllAvailable() }
      feed()
      val key =
        StoreId(0, StateStoreId.DEFAULT_STORE_NAME).in(running.query.runId.toString)
      val holdings =
        (0 until 3).flatMap(w => ExecutorHost.active.get.agent.registry.holding(WorkerId(key, w)))
      for (holding <- holdings; bin <- holding.bins) {
        val scan = holding.log(bin).scan(0)
        while (scan.next())
          flip(scan.cursor.bytes, scan.cursor.valueOffset + scan.cursor.valueBytes - 1, 0)
      }
      assert(messagesOf(intercept[StreamingQueryException](feed())).contains(Condition))
    }
  }
}

object RowChecksumSuite {
  private val Enabled = "spark.sql.streaming.stateStore.rowChecksum.enabled"
  private val Ratio = "spark.sql.streaming.stateStore.rowChecksum.readVerificationRatio"
  private val Condition = "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED"
  private val BinsCount = 4

  private val Names = new StructType().add("name", StringType)
  private val Keys = Names.add("time", LongType)
  private val Values = new StructType().add("text", StringType)

  private def kind(spec: KeyStateEncoderSpec, isMultiValued: Boolean = false) =
    ColumnFamilySpec(spec, Values, isMultiValued, isInternal = false)
  private val Kinds = Map(
    "plain" -> kind(NoPrefixKeyStateEncoderSpec(Keys)),
    "prefixed" -> kind(PrefixKeyScanStateEncoderSpec(Keys, 1)),
    "ordered" -> kind(RangeKeyScanStateEncoderSpec(Keys, Seq(1))),
    "many" -> kind(NoPrefixKeyStateEncoderSpec(Keys), isMultiValued = true)
  )

  private val projections =
    Seq(Names, Keys, Values).map(schema => schema -> UnsafeProjection.create(schema)).toMap
  private def rowOf(schema: StructType, cells: Any*): UnsafeRow =
    projections(schema)(InternalRow.fromSeq(cells)).copy()
  private def name(i: Int): UTF8String = UTF8String.fromString(s"name ${i % 3}")
  private def key(i: Int): UnsafeRow = rowOf(Keys, name(i), i.toLong)
  private def value(i: Int): UnsafeRow = rowOf(Values, UTF8String.fromString("v" * i + i))

  private def flip(bytes: Array[Byte], byte: Int, bit: Int): Unit = bytes(byte) =
    (bytes(byte) ^ (1 << bit)).toByte

  /** The rows of one worker that has all bins, in memory. */
  private final class Store(checksums: Option[RowChecksums]) {
    private val holding = new Holding(0, BinsCount)
    (0 until BinsCount).foreach(bin => holding.put(bin, new BinLog, Chain.Empty))
    private val families = {
      val created =
        new ColumnFamilyRegistry(kind(NoPrefixKeyStateEncoderSpec(Keys)), areUsed = true)
      Kinds.foreach { case (name, kind) => created.create(name, kind) }
      val operator =
        Operator(0, "stateStoreSave", Vector(StateStoreId.DEFAULT_STORE_NAME), Kinds.keys.toVector)
      new ColumnFamilies(
        created,
        operator,
        StateStoreId.DEFAULT_STORE_NAME,
        BinsCount,
        None,
        checksums
      )
    }
    val rows =
      new BinnedRows(StoreId(0, StateStoreId.DEFAULT_STORE_NAME).in("run"), holding, families)

    def of(family: String): ColumnFamily = families("get", family)
    def logs: Seq[BinLog] = (0 until BinsCount).map(holding.log)

    /** Where the only record of a family lies. */
    def only(family: String): Cursor = {
      val found = logs.map(_.scan(of(family).number)).filter(_.next())
      assert(found.size == 1)
      found.head.cursor
    }

    def fill(): Unit = {
      for ((family, kind) <- Kinds; i <- 0 until 12)
        if (!kind.isMultiValued) rows.put(of(family), key(i), value(i))
        else {
          rows.putAll(of(family), key(i), Seq(value(i), value(i + 1)))
          rows.merge(of(family), key(i), Seq(value(i + 2)))
        }
      Kinds.keys.foreach(family => rows.remove(of(family), key(3)))
    }

    /** All that there is, by each way to read it. */
    def shown: Seq[String] = Kinds.toSeq.flatMap { case (family, kind) =>
      def show(pairs: Iterator[UnsafeRowPair]): Seq[String] =
        pairs
          .map(p =>
            s"$family, ${p.key.getUTF8String(0)} at ${p.key.getLong(1)}: " +
              s"${p.value.getUTF8String(0)}"
          )
          .toVector
          .sorted
      val f = of(family)
      val byKey = (0 until 12).map(i =>
        s"$family, $i: ${Option(rows.get(f, key(i))).map(_.getUTF8String(0)).orNull}"
      )
      val several =
        if (kind.isMultiValued)
          (0 until 12)
            .flatMap(i => rows.valuesOf(f, key(i)).map(v => s"$family, $i: ${v.getUTF8String(0)}"))
        else Nil
      val all = show(if (kind.isMultiValued) rows.iteratorOfMany(f) else rows.iterator(f))
      val byPrefix =
        if (family == "prefixed") show(rows.withPrefix(f, rowOf(Names, name(1)))) else Nil
      val byRange =
        if (family == "ordered") show(rows.range(f, Some(key(2)), Some(key(7)))) else Nil
      byKey ++ several ++ all ++ byPrefix ++ byRange
    }
  }
}
