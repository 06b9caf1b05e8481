// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.shapes

import java.sql.Timestamp

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.streaming._

/** `transformWithState` of Scala, for the tests on processes. The jar of the fault points brings
  * it.
  */
object Visits {

  /** Of the tests' input, what is looked at. */
  final case class Seen(k: Long, v: Long, t: Timestamp)

  /** @param is_last
    *   whether the key has not been seen for some time
    */
  final case class Told(k: Long, n: Long, listed: Long, mapped: Long, is_last: Boolean)

  /** Counts a key's rows in a value, a list and a map, in append mode, as `visits` of testkit's
    * `processors` does. The key starts anew if it has not been seen for so long.
    */
  def of(rows: DataFrame, unseenMs: Long): DataFrame = rows
    .withWatermark("t", "0 seconds")
    .select("k", "v", "t")
    .as[Seen](Encoders.product[Seen])
    .groupByKey(_.k)(Encoders.scalaLong)
    .transformWithState(new Counted(unseenMs), TimeMode.EventTime(), OutputMode.Append())(
      Encoders.product[Told]
    )
    .toDF()

  private final class Counted(unseenMs: Long) extends StatefulProcessor[Long, Seen, Told] {
    @transient private var count: ValueState[Long] = _
    @transient private var values: ListState[Long] = _
    @transient private var byValue: MapState[Long, Long] = _

    override def init(mode: OutputMode, time: TimeMode): Unit = {
      val long = Encoders.scalaLong
      count = getHandle.getValueState[Long]("count", long, TTLConfig.NONE)
      values = getHandle.getListState[Long]("values", long, TTLConfig.NONE)
      byValue = getHandle.getMapState[Long, Long]("by_value", long, long, TTLConfig.NONE)
    }

    override def handleInputRows(
        key: Long,
        rows: Iterator[Seen],
        timers: TimerValues
    ): Iterator[Told] = {
      val seen = rows.toVector
      count.update((if (count.exists()) count.get() else 0L) + seen.size)
      values.appendList(seen.map(_.v).toArray)
      for (Seen(_, v, _) <- seen)
        byValue.updateValue(v, (if (byValue.containsKey(v)) byValue.getValue(v) else 0L) + 1)
      getHandle.listTimers().toVector.foreach(getHandle.deleteTimer)
      getHandle.registerTimer(seen.map(_.t.getTime).max + unseenMs)
      Iterator(told(key, isLast = false))
    }

    override def handleExpiredTimer(
        key: Long,
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[Told] = {
      val last = told(key, isLast = true)
      count.clear()
      values.clear()
      byValue.clear()
      Iterator(last)
    }

    private def told(key: Long, isLast: Boolean) =
      Told(key, count.get(), values.get().size.toLong, byValue.values().sum, isLast)
  }
}
