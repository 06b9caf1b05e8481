// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Encoders}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

import io.megaphone.spark.query.OperatorSession._

/** Queries whose operators look at all rows of their state, for those that are due by a time. */
object DueByTime {
  private implicit val counts: Encoder[(String, Long)] = Encoders.product[(String, Long)]
  private implicit val number: Encoder[Long] = Encoders.scalaLong
  private implicit val name: Encoder[String] = Encoders.STRING

  val HourMs: Long = 3600 * 1000L
  private val Near =
    "id = id2 and at2 between at - interval 2 seconds and at + interval 2 seconds"

  def timed[A](rows: Dataset[A]): Dataset[A] = rows.withWatermark("at", "3 seconds")

  private def windowOf(rows: Dataset[_]) = window(rows("at"), "2 seconds")

  /** Numbers in windows of two seconds. */
  def windows(rows: Dataset[_]): DataFrame = rows.groupBy(windowOf(rows), col("id")).count()

  /** The same, of windows that have another name. */
  def namedWindows(rows: Dataset[_]): DataFrame =
    rows.select(windowOf(rows).as("span"), col("id")).groupBy("span", "id").count()

  /** Numbers at each time. */
  def times(rows: Dataset[_]): DataFrame = rows.groupBy("id", "at").count()

  def sessions(rows: Dataset[_]): DataFrame =
    rows.groupBy(session_window(col("at"), "400 milliseconds"), col("id")).count()

  /** The same; what is a gap goes by the row. */
  def sessionsOfRows(rows: Dataset[_]): DataFrame = {
    val gap = expr("case when amount > 0 then '400 milliseconds' else '1900 milliseconds' end")
    rows.groupBy(session_window(col("at"), gap), col("id")).count()
  }

  def uniqueTimes(rows: Dataset[_]): DataFrame =
    rows.select("id", "at", "inner").dropDuplicates("id", "at", "inner")

  def uniqueWithin(rows: Dataset[_]): DataFrame =
    rows.select("id", "inner", "at").dropDuplicatesWithinWatermark("id", "inner")

  /** Rows beside those that have the same number and nearly the same time; some meet none. */
  def near(kind: String, left: Dataset[_], right: Dataset[_]): DataFrame = joined(Near, kind)(
    left.where("ratio is null or ratio < 4").select("id", "name", "at"),
    right
      .where("ratio is null or ratio > 2")
      .select(col("id").as("id2"), col("at").as("at2"))
  )

  /** Rows beside those that have the same number and the same time. */
  def atOnce(kind: String, left: Dataset[_], right: Dataset[_]): DataFrame =
    joined("id = id2 and at = at2", kind)(
      left.select("id", "at"),
      right.select(col("id").as("id2"), col("at").as("at2"))
    )

  private def joined(on: String, kind: String)(left: Dataset[_], right: Dataset[_]) =
    left.join(right, expr(on), kind)

  /** Counts a key's rows until it times out by the clock: soon, or for some keys in an hour. */
  def countedByClock(soonMs: Long, isMap: Boolean)(rows: Dataset[Key]): DataFrame = {
    val groups = rows.groupByKey(k => s"${k.name} ${k.id}")
    val byClock = GroupStateTimeout.ProcessingTimeTimeout
    val counted: (String, Iterator[Key], GroupState[Long]) => (String, Long) =
      (key, values, state) =>
        untilDue(key, values.toVector, state) { (_, isSoon) =>
          state.setTimeoutDuration(if (isSoon) soonMs else HourMs)
        }
    val all =
      if (isMap) groups.mapGroupsWithState[Long, (String, Long)](byClock)(counted)
      else
        groups.flatMapGroupsWithState[Long, (String, Long)](OutputMode.Update(), byClock)(
          (key, values, state) => Iterator(counted(key, values, state))
        )
    all.toDF()
  }

  /** Counts the rows of a key until a second and a half after the last of them, or for some keys
    * for ever.
    */
  def countedByTime(rows: Dataset[Key]): DataFrame = timed(rows)
    .groupByKey(k => s"${k.name} ${k.id}")
    .flatMapGroupsWithState[Long, (String, Long)](
      OutputMode.Update(),
      GroupStateTimeout.EventTimeTimeout
    ) { (key, values, state) =>
      Iterator(untilDue(key, values.toVector, state) { (rows, isSoon) =>
        if (isSoon) state.setTimeoutTimestamp(rows.map(_.at.getTime).max + 1500)
      })
    }
    .toDF()

  private def untilDue(key: String, rows: Vector[Key], state: GroupState[Long])(
      setTimeout: (Vector[Key], Boolean) => Unit
  ): (String, Long) =
    if (state.hasTimedOut) {
      val n = state.get
      state.remove()
      (s"$key is due", n)
    } else {
      state.update(state.getOption.getOrElse(0L) + rows.size)
      setTimeout(rows, key.length % 3 > 0)
      (key, state.get)
    }
}
