// SPDX-License-Identifier: Apache-2.0
package io.megaphone.query

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Encoders, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.megaphone.GroupExec
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode, StreamingQueryException}

import io.megaphone.query.OperatorBinsSuite._

/** Every operator finds each key in the bin that the exchange sent it to. With one bin a worker, a key that the provider looks for in any other bin is an
  * error, never a wrong result.
  */
class OperatorBinsSuite extends PluginSession {
  private val bins = 8
  private val sparks = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

  override protected def settings: Map[String, String] = Map("spark.megaphone.bins" -> bins.toString, "spark.sql.shuffle.partitions" -> bins.toString)

  private implicit val keys: Encoder[Key] = Encoders.product[Key]

  /** Keys that are hard on a hash: some come in every batch, some in one. */
  private def rows(batch: Int): Seq[Key] = rows(batch, new Random(1)) ++ rows(batch, new Random(2L + batch))

  private def rows(batch: Int, random: Random): Seq[Key] = {
    def maybe[A >: Null](value: => A): A = if (random.nextInt(8) == 0) null else value
    Seq.fill(40) {
      Key(
        maybe[java.lang.Long](Seq(0L, -1L, Long.MinValue, random.nextInt(50).toLong)(random.nextInt(4))),
        maybe[java.lang.Double](
          Seq(0.0, -0.0, Double.NaN, java.lang.Double.longBitsToDouble(0x7ff8000000000001L), random.nextInt(60) / 7.0)(
            4 * random.nextInt(2) max random.nextInt(5)
          )
        ),
        maybe(Seq("", "a", "A", "日本", "ß", random.nextString(2))(random.nextInt(6))),
        maybe(Array.fill(random.nextInt(12))(random.nextInt(3).toByte)),
        maybe(new java.math.BigDecimal("12345678901234567890.5").multiply(new java.math.BigDecimal(random.nextInt(16) - 8))),
        maybe(Inner(random.nextInt(30), maybe(Seq("x", "y")(random.nextInt(2))))),
        new Timestamp(1700000000000L + batch * 10000L + random.nextInt(5000))
      )
    }
  }

  /** Two batches on bins give what they give on Spark's own provider, null by null and zero by zero. */
  private def check(mode: OutputMode)(make: Dataset[Key] => DataFrame): Unit = {
    def run(looks: Running => Unit): Seq[String] = {
      val memory = MemoryStream[Key](spark)
      val running = start(make(memory.toDS()), mode.toString.toLowerCase(java.util.Locale.ROOT))
      (0 to 1).foreach { batch =>
        memory.addData(rows(batch))
        running.query.processAllAvailable()
      }
      looks(running)
      running.stop()
      sorted(running.all.map(r => Row.fromSeq(r.toSeq.map(printed))))
    }
    val onBins = run { running =>
      val tables = running.plan.collect { case g: GroupExec => g.tables.value.after }
      assert(tables.nonEmpty && tables.forall(_.binCounts.toSeq == Seq.fill(bins)(1)))
      assert(running.keys.count(_._2 > 0) > bins / 2, "the keys are in few bins only")
    }
    val onSparks = withConf("spark.sql.streaming.stateStore.providerClass" -> sparks)(run(r => assert(r.plan.collect { case g: GroupExec => g }.isEmpty)))
    assert(onBins.nonEmpty)
    assert(onBins == onSparks)
  }

  private def printed(value: Any): Any = value match {
    case bytes: Array[_] => bytes.mkString("[", " ", "]")
    case other => other
  }

  private val columns = Seq("id", "ratio", "name", "bytes", "amount", "inner")
  private val single = columns.map(c => s"`$c`" -> Seq(c)) ++ Seq("all columns" -> columns)

  for ((name, by) <- single)
    test(s"An aggregate by $name.") {
      check(OutputMode.Update())(_.groupBy(by.map(col): _*).agg(count("*"), max("at")))
    }

  for ((name, by) <- single)
    test(s"A deduplication by $name.") {
      check(OutputMode.Append())(_.select(by.map(col): _*).dropDuplicates())
    }

  test("An aggregate by a time window and a key.") {
    check(OutputMode.Append())(_.withWatermark("at", "1 second").groupBy(window(col("at"), "2 seconds"), col("id"), col("inner")).count())
  }

  test("An aggregate by a string of the one collation that is binary stable; any other is refused by Spark before it comes to us.") {
    check(OutputMode.Update())(_.groupBy(collate(col("name"), "UTF8_BINARY").as("word")).agg(count("*")))
    val memory = MemoryStream[Key](spark)
    val running = start(memory.toDF().groupBy(collate(col("name"), "UNICODE").as("word")).agg(count("*")), "update")
    memory.addData(rows(0))
    val error = intercept[StreamingQueryException](running.query.processAllAvailable())
    assert(messagesOf(error).contains("STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY"))
  }

  for (how <- Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi"))
    test(s"A $how join of two streams by a number, a string and a struct, within the watermark.") {
      check(OutputMode.Append()) { rows =>
        val timed = rows.withWatermark("at", "1 second").toDF()
        val left = timed.where("ratio is null or ratio < 4").select("id", "name", "inner", "at")
        val right =
          timed.where("ratio is null or ratio > 2").select(col("id").as("id2"), col("name").as("name2"), col("inner").as("inner2"), col("at").as("at2"))
        left.join(right, expr("id = id2 and name = name2 and inner = inner2 and at2 between at - interval 3 seconds and at + interval 3 seconds"), how)
      }
    }

  for (mode <- Seq(OutputMode.Append(), OutputMode.Complete()))
    test(s"Sessions of a number, a string and a struct in ${mode.toString.toLowerCase(java.util.Locale.ROOT)} mode.") {
      check(mode)(_.withWatermark("at", "1 second").groupBy(session_window(col("at"), "400 milliseconds"), col("id"), col("name"), col("inner")).count())
    }

  test("A deduplication within the watermark.") {
    check(OutputMode.Append())(_.withWatermark("at", "1 second").select("id", "inner", "name", "at").dropDuplicatesWithinWatermark("id", "inner", "name"))
  }

  test("A deduplication whose key has the event time.") {
    check(OutputMode.Append())(_.withWatermark("at", "1 second").select("id", "at").dropDuplicates("id", "at"))
  }

  test("`flatMapGroupsWithState` by a tuple, with a time-out, in both orders of its columns.") {
    val s = spark
    import s.implicits._
    check(OutputMode.Update()) {
      _.withWatermark("at", "1 second")
        .groupByKey(k => (k.name, k.id, Option(k.inner)))
        .flatMapGroupsWithState[Long, (String, Long)](OutputMode.Update(), GroupStateTimeout.EventTimeTimeout) { (key, values, state) =>
          counted(key.toString, values.size.toLong, state)
        }
        .toDF()
    }
    check(OutputMode.Update()) {
      _.groupByKey(k => (Option(k.inner), k.id, k.name))
        .flatMapGroupsWithState[Long, (String, Long)](OutputMode.Update(), GroupStateTimeout.NoTimeout) { (key, values, state) =>
          counted(key.toString, values.size.toLong, state)
        }
        .toDF()
    }
  }

  test("`flatMapGroupsWithState` that starts from an initial state, which is routed as the stream is.") {
    val s = spark
    import s.implicits._
    val initial = Seq.tabulate(40)(i => (s"only $i", i.toLong)).toDS().union(Seq(("a", 100L), ("", 200L)).toDS()).groupByKey(_._1).mapValues(_._2)
    check(OutputMode.Update()) {
      _.groupByKey(k => String.valueOf(k.name))
        .flatMapGroupsWithState[Long, (String, Long)](OutputMode.Update(), GroupStateTimeout.NoTimeout, initial)((key, values, state) =>
          counted(key, values.size.toLong, state)
        )
        .toDF()
    }
  }

  test("`mapGroupsWithState` by a single value.") {
    val s = spark
    import s.implicits._
    check(OutputMode.Update()) {
      _.groupByKey(k => String.valueOf(k.name))
        .mapGroupsWithState[Long, (String, Long)](GroupStateTimeout.NoTimeout)((key, values, state) => counted(key, values.size.toLong, state).next())
        .toDF()
    }
  }
}

object OperatorBinsSuite {
  final case class Inner(x: Int, y: String)
  final case class Key(id: java.lang.Long, ratio: java.lang.Double, name: String, bytes: Array[Byte], amount: java.math.BigDecimal, inner: Inner, at: Timestamp)

  private def counted(key: String, rows: Long, state: GroupState[Long]): Iterator[(String, Long)] = {
    val sum = state.getOption.getOrElse(0L) + rows
    state.update(sum)
    Iterator((key, sum))
  }
}
