// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Encoders, Row}
import org.apache.spark.sql.streaming._

/** Count and sum per key by `transformWithState`, for the steady batch. */
object TransformWork {
  private implicit val pair: Encoder[(Long, Long)] =
    Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong)
  private implicit val triple: Encoder[(Long, Long, Long)] =
    Encoders.tuple(Encoders.scalaLong, Encoders.scalaLong, Encoders.scalaLong)

  /** Of a stream of (k, v). */
  def sums(rows: Dataset[Row]): DataFrame =
    rows
      .as[(Long, Long)]
      .groupByKey(_._1)(Encoders.scalaLong)
      .transformWithState(new Sums, TimeMode.None(), OutputMode.Update())
      .toDF("k", "n", "s")

  private final class Sums extends StatefulProcessor[Long, (Long, Long), (Long, Long, Long)] {
    @transient private var sums: ValueState[(Long, Long)] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = sums =
      getHandle.getValueState[(Long, Long)]("sums", pair, TTLConfig.NONE)

    override def handleInputRows(
        key: Long,
        rows: Iterator[(Long, Long)],
        timers: TimerValues
    ): Iterator[(Long, Long, Long)] = {
      val before = sums.get()
      val (n, s) = rows.foldLeft(if (before == null) (0L, 0L) else before) {
        case ((n, s), (_, v)) => (n + 1, s + v)
      }
      sums.update((n, s))
      Iterator((key, n, s))
    }
  }
}
