// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{
  GroupState, GroupStateTimeout, OutputMode, StreamingQueryException
}

import io.megaphone.spark.query.OperatorBinsSuite._
import io.megaphone.spark.query.OperatorSession._
import io.megaphone.spark.rule.GroupExec

/** Every operator finds each key in the bin that the exchange sent it to. */
class OperatorBinsSuite extends OperatorSession {
  private def check(mode: OutputMode)(make: Dataset[Key] => DataFrame): Unit =
    check(mode, OnMaps)(make)(_ => ())

  private val columns = Seq("id", "ratio", "name", "bytes", "amount", "inner")
  private val single = columns.map(c => s"`$c`" -> Seq(c)) ++ Seq("all columns" -> columns)

  for ((name, by) <- single)
    test(s"An aggregate by $name.") {
      check(OutputMode.Update())(_.groupBy(by.map(col): _*).agg(count("*"), max("at")))
    }

  for ((name, by) <- single)
    test(s"A deduplication by $name.", isInShortRun = by.size > 1) {
      check(OutputMode.Append())(_.select(by.map(col): _*).dropDuplicates())
    }

  test("An aggregate by a time window and a key.") {
    check(OutputMode.Append())(
      _.withWatermark("at", "1 second")
        .groupBy(window(col("at"), "2 seconds"), col("id"), col("inner"))
        .count()
    )
  }

  test(
    "An aggregate by a string of the one collation that is binary stable; any other is refused " +
      "by Spark before it comes to us."
  ) {
    check(OutputMode.Update())(
      _.groupBy(collate(col("name"), "UTF8_BINARY").as("word")).agg(count("*"))
    )
    val memory = MemoryStream[Key](spark)
    val running = start(
      memory.toDF().groupBy(collate(col("name"), "UNICODE").as("word")).agg(count("*")),
      "update"
    )
    memory.addData(rows(0))
    val error = intercept[StreamingQueryException](running.query.processAllAvailable())
    assert(messagesOf(error).contains("STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY"))
  }

  private def joined(how: String)(rows: Dataset[Key]): DataFrame = {
    val timed = rows.withWatermark("at", "1 second").toDF()
    val left = timed.where("ratio is null or ratio < 4").select("id", "name", "inner", "at")
    val right = timed
      .where("ratio is null or ratio > 2")
      .select(
        col("id").as("id2"),
        col("name").as("name2"),
        col("inner").as("inner2"),
        col("at").as("at2")
      )
    left.join(
      right,
      expr(
        "id = id2 and name = name2 and inner = inner2 and at2 between at - interval 3 seconds " +
          "and at + interval 3 seconds"
      ),
      how
    )
  }

  /** From 4.3 on Spark takes format 2 instead of a later one, but for its RocksDB provider. */
  private def formatOfOwn(format: Int): Int =
    if (SPARK_VERSION >= "4.3") math.min(format, 2) else format

  private def checkFormat(running: Running, format: Int): Unit =
    assert(
      running.plan
        .collectFirst { case join: StreamingSymmetricHashJoinExec => join.stateFormatVersion }
        .contains(format)
    )

  private def isShort(format: Int, how: String) =
    Set(2 -> "left_outer", 4 -> "full_outer")(format -> how)

  // In format 1 Spark runs inner joins only.
  for (
    format <- 1 to 4; how <- Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi")
    if format > 1 || how == "inner"
  )
    test(
      s"A $how join of two streams by a number, a string and a struct, within the watermark, in " +
        s"state format $format.",
      isShort(format, how)
    ) {
      withConf("spark.sql.streaming.join.stateFormatVersion" -> format.toString) {
        check(OutputMode.Append(), if (format > 2) OnRocks else OnMaps, batches = 3)(joined(how)) {
          running =>
            checkFormat(
              running,
              if (running.plan.exists(_.isInstanceOf[GroupExec])) formatOfOwn(format) else format
            )
        }
      }
    }

  // Moves in the formats before these are the plans' tests.
  for (
    format <- 3 to 4; how <- Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi")
  )
    test(s"A $how join of two streams in state format $format that moves.", isInShortRun = false) {
      withConf("spark.sql.streaming.join.stateFormatVersion" -> format.toString) {
        checkMoved(OutputMode.Append(), OnRocks, checkFormat(_, formatOfOwn(format)))(joined(how))
      }
    }

  for (mode <- Seq(OutputMode.Append(), OutputMode.Complete()))
    test(
      "Sessions of a number, a string and a struct in " +
        s"${mode.toString.toLowerCase(java.util.Locale.ROOT)} mode."
    ) {
      check(mode)(
        _.withWatermark("at", "1 second")
          .groupBy(
            session_window(col("at"), "400 milliseconds"),
            col("id"),
            col("name"),
            col("inner")
          )
          .count()
      )
    }

  test("A deduplication within the watermark.") {
    check(OutputMode.Append())(
      _.withWatermark("at", "1 second")
        .select("id", "inner", "name", "at")
        .dropDuplicatesWithinWatermark("id", "inner", "name")
    )
  }

  test("A deduplication whose key has the event time.") {
    check(OutputMode.Append())(
      _.withWatermark("at", "1 second").select("id", "at").dropDuplicates("id", "at")
    )
  }

  test("`flatMapGroupsWithState` by a tuple, with a time-out, in both orders of its columns.") {
    val s = spark
    import s.implicits._
    check(OutputMode.Update()) {
      _.withWatermark("at", "1 second")
        .groupByKey(k => (k.name, k.id, Option(k.inner)))
        .flatMapGroupsWithState[Long, (String, Long)](
          OutputMode.Update(),
          GroupStateTimeout.EventTimeTimeout
        ) { (key, values, state) =>
          counted(key.toString, values.size.toLong, state)
        }
        .toDF()
    }
    check(OutputMode.Update()) {
      _.groupByKey(k => (Option(k.inner), k.id, k.name))
        .flatMapGroupsWithState[Long, (String, Long)](
          OutputMode.Update(),
          GroupStateTimeout.NoTimeout
        ) { (key, values, state) =>
          counted(key.toString, values.size.toLong, state)
        }
        .toDF()
    }
  }

  test(
    "`flatMapGroupsWithState` that starts from an initial state, which is routed as the stream is."
  ) {
    val s = spark
    import s.implicits._
    val initial = Seq
      .tabulate(40)(i => (s"only $i", i.toLong))
      .toDS()
      .union(Seq(("a", 100L), ("", 200L)).toDS())
      .groupByKey(_._1)
      .mapValues(_._2)
    check(OutputMode.Update()) {
      _.groupByKey(k => String.valueOf(k.name))
        .flatMapGroupsWithState[Long, (String, Long)](
          OutputMode.Update(),
          GroupStateTimeout.NoTimeout,
          initial
        )((key, values, state) => counted(key, values.size.toLong, state))
        .toDF()
    }
  }

  for (
    format <- 1 to 2; hasInitial <- Seq(false, true);
    start = if (hasInitial) ", from an initial state" else ""
  )
    test(
      s"`flatMapGroupsWithState` whose time-outs are due in the batch of a move$start, in format " +
        s"$format.",
      isInShortRun = hasInitial && format == 2
    ) {
      val s = spark
      import s.implicits._
      val initial = Seq
        .tabulate(40)(i => (s"only $i", i.toLong))
        .toDS()
        .union(Seq(("a", 100L), ("", 200L)).toDS())
        .groupByKey(_._1)
        .mapValues(_._2)
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMoved(OutputMode.Update(), isDue = Some(says("is due"))) { stream =>
          val groups =
            stream.withWatermark("at", "1 second").groupByKey(k => String.valueOf(k.name))
          val timeout = GroupStateTimeout.EventTimeTimeout
          val counts =
            if (hasInitial)
              groups.flatMapGroupsWithState[Long, (String, Long)](
                OutputMode.Update(),
                timeout,
                initial
              )(countedUntilDue(_, _, _))
            else
              groups.flatMapGroupsWithState[Long, (String, Long)](OutputMode.Update(), timeout)(
                countedUntilDue(_, _, _)
              )
          counts.toDF()
        }
        ()
      }
    }

  for (format <- 1 to 2)
    test(
      "`flatMapGroupsWithState` whose time-outs go by the clock, and are due in the batch of a " +
        s"move, in format $format.",
      isInShortRun = false
    ) {
      val s = spark
      import s.implicits._
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMovedByClock(OutputMode.Update(), OnMaps, says("is due")) {
          _.groupByKey(k => s"${k.name} ${k.id}")
            .flatMapGroupsWithState[Long, (String, Long)](
              OutputMode.Update(),
              GroupStateTimeout.ProcessingTimeTimeout
            )(
              countedUntilDue(_, _, _, isByClock = true)
            )
            .toDF()
        }
      }
    }

  for (format <- 1 to 2)
    test(
      "Deduplicated rows that are forgotten behind the watermark, in the batch of a move, in " +
        s"format $format.",
      format == 1
    ) {
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMoved(OutputMode.Append(), isDue = Some(removes)) {
          _.withWatermark("at", "5 seconds")
            .dropDuplicatesWithinWatermark("id", "inner", "name")
            .select("id", "name")
        }
        ()
      }
    }

  test("`mapGroupsWithState` by a single value, which moves.") {
    val s = spark
    import s.implicits._
    checkMoved(OutputMode.Update()) {
      _.groupByKey(k => String.valueOf(k.name))
        .mapGroupsWithState[Long, (String, Long)](GroupStateTimeout.NoTimeout)(
          (key, values, state) => counted(key, values.size.toLong, state).next()
        )
        .toDF()
    }
    ()
  }
}

object OperatorBinsSuite {

  /** Counts a key's rows until a second and a half after the last of them, and tells then. */
  private def countedUntilDue(
      key: String,
      values: Iterator[Key],
      state: GroupState[Long],
      isByClock: Boolean = false
  ): Iterator[(String, Long)] =
    if (state.hasTimedOut) { val sum = state.get; state.remove(); Iterator((s"$key is due", sum)) }
    else {
      val rows = values.toVector
      val sum = state.getOption.getOrElse(0L) + rows.size
      state.update(sum)
      if (isByClock) state.setTimeoutDuration(1500)
      else if (rows.nonEmpty) state.setTimeoutTimestamp(rows.map(_.at.getTime).max + 1500)
      Iterator((key, sum))
    }

  private def counted(
      key: String,
      rows: Long,
      state: GroupState[Long]
  ): Iterator[(String, Long)] = {
    val sum = state.getOption.getOrElse(0L) + rows
    state.update(sum)
    Iterator((key, sum))
  }
}
