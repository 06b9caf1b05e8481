// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.shapes

import java.sql.Timestamp

import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

/** `flatMapGroupsWithState`, which Python does not have, for the tests on processes. The jar of the
  * fault points brings it.
  */
object Tallies {
  private implicit val keys: Encoder[Long] = Encoders.scalaLong

  /** Of the tests' input, what is looked at. */
  final case class Seen(k: Long, t: Timestamp)

  /** @param is_last
    *   whether the key has not been seen for some time
    */
  final case class Told(k: Long, n: Long, is_last: Boolean)

  /** Counts a key's rows, in append mode, as `tally` of testkit's `processors` does. The key starts
    * anew if it has not been seen for so long.
    */
  def of(rows: DataFrame, unseenMs: Long): DataFrame = rows
    .withWatermark("t", "0 seconds")
    .select("k", "t")
    .as[Seen](Encoders.product[Seen])
    .groupByKey(_.k)
    .flatMapGroupsWithState[Long, Told](OutputMode.Append(), GroupStateTimeout.EventTimeTimeout)(
      counted(unseenMs)
    )(Encoders.scalaLong, Encoders.product[Told])
    .toDF()

  private def counted(
      unseenMs: Long
  )(key: Long, rows: Iterator[Seen], state: GroupState[Long]): Iterator[Told] = {
    val known = state.getOption.getOrElse(0L)
    if (state.hasTimedOut) {
      state.remove()
      Iterator(Told(key, known, is_last = true))
    } else {
      val seen = rows.toVector
      state.update(known + seen.size)
      state.setTimeoutTimestamp(seen.map(_.t.getTime).max + unseenMs)
      Iterator(Told(key, state.get, is_last = false))
    }
  }
}
