// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.{col, window}
import org.apache.spark.sql.streaming._

import io.megaphone.spark.query.DueByTime._
import io.megaphone.spark.query.OperatorSession._
import io.megaphone.spark.query.TransformWithStateSuite.{FromBefore, Seen, Stamped}

/** A step on demand of operators that hand on to each other, and of `transformWithState` whose
  * state has a past: it began with some, or is of a narrower type. The tests run with all tests
  * only.
  */
class OnDemandChainsSuite extends OnDemandSession {
  import OnDemandChainsSuite._

  /** Each of two operators with an exchange of its own asked for something, which came, and left
    * something where it was.
    */
  private def ofBoth(isDue: (Running, Long) => Boolean)(running: Running, first: Long): Unit = {
    val moved = running.movedIn
    assert(moved.exists(isDue(running, _)), s"nothing was due in batches $moved")
    val all = moved.flatMap(running.migrationsIn)
    for (column <- Seq("sub_bins", "bins_incomplete")) {
      val having = all.filter(_.get(column).asLong > 0).map(_.get("operator").asLong)
      assert(having.toSet == Set(0, 1), s"$column, since batch $first: $all")
    }
    assert(all.forall(_.get("bins_from_checkpoint").asLong == 0), s"$all")
  }

  test("One `transformWithState` behind another.", isInShortRun = false) {
    val s = spark
    import s.implicits._
    checkStep(ofBoth(says("is due")), sparks = OnRocks) { rows =>
      timed(rows)
        .groupByKey(k => String.valueOf(k.id))
        .transformWithState(new Stamped, "at", OutputMode.Append())
        .groupByKey(seen => s"${seen.id} ${seen.count % 2}")
        .transformWithState(new Gathering, TimeMode.EventTime(), OutputMode.Append())
        .toDF()
    }
  }

  testInBothFormats("An aggregate behind a deduplication, by another key") {
    checkStep(ofBoth(removes)) { rows =>
      timed(rows)
        .dropDuplicatesWithinWatermark("id")
        .groupBy(window(col("at"), "2 seconds"), col("name"))
        .count()
    }
  }

  test("An aggregate behind a join, by another key.", isInShortRun = false) {
    checkStep(ofBoth(removes)) { rows =>
      near("inner", timed(rows), timed(rows))
        .groupBy(window(col("at"), "2 seconds"), col("name"))
        .count()
    }
  }

  testInBothFormats("`transformWithState` that began with some state") {
    val s = spark
    import s.implicits._
    val some = for (name <- Seq("", "a", "A", "null"); id <- -1 until 50) yield s"$name $id"
    val initial = some.zipWithIndex
      .map { case (key, i) => (key, 1000L * i) }
      .toDS()
      .groupByKey(_._1)
    checkStep(leavesSome, OutputMode.Update(), OnRocks) {
      _.groupByKey(k => s"${k.name} ${k.id}")
        .transformWithState(new FromBefore, TimeMode.None(), OutputMode.Update(), initial)
        .toDF()
    }
  }

  /** Runs a query with a narrow type, and goes on with a wide one, as a process that was started
    * again does. Then bins move.
    */
  private def widened(move: (Running, () => Unit) => Unit): Map[Long, Seq[String]] = {
    val s = spark
    import s.implicits._
    val (memory, checkpoint) = (MemoryStream[Key](spark), folder("checkpoint").toString)
    val rounds = new Rounds(memory)
    def begun(processor: StatefulProcessor[String, Key, (String, Long, String)]): Running = {
      val all = memory
        .toDS()
        .groupByKey(k => s"${k.name} ${k.id}")
        .transformWithState(processor, TimeMode.None(), OutputMode.Update())
      start(all.toDF(), "update", checkpoint)
    }
    val narrow = begun(new Narrowly)
    rounds.before(narrow.query.processAllAvailable())
    narrow.stop()
    val wide = begun(new Widely)
    def settle(): Unit = wide.query.processAllAvailable()
    rounds.next(settle()) // some keys have the wide type now, the others still the narrow one
    move(wide, () => rounds.next(settle()))
    rounds.rest(settle())
    wide.stop()
    rowsByBatch(narrow) ++ rowsByBatch(wide)
  }

  test("`transformWithState` whose state has got a wider type.", isInShortRun = false) {
    withConf("spark.sql.streaming.stateStore.encodingFormat" -> "avro") {
      compareRuns(OnRocks, leavesSome)(widened)
    }
  }
}

object OnDemandChainsSuite {

  /** Counts what another operator hands on, until the time of one has passed by a while. */
  final class Gathering extends StatefulProcessor[String, Seen, (String, Long)] {
    @transient private var sum: ValueState[Long] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = sum =
      getHandle.getValueState[Long]("sum", Encoders.scalaLong, TTLConfig.NONE)

    override def handleInputRows(
        key: String,
        seen: Iterator[Seen],
        timers: TimerValues
    ): Iterator[(String, Long)] = {
      seen.foreach { one =>
        sum.update((if (sum.exists()) sum.get() else 0L) + one.count)
        val due = one.at.getTime + 1500
        if (!getHandle.listTimers().contains(due)) getHandle.registerTimer(due)
      }
      Iterator((key, sum.get()))
    }

    override def handleExpiredTimer(
        key: String,
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[(String, Long)] = {
      val told = (s"$key is due", if (sum.exists()) sum.get() else 0L)
      if (getHandle.listTimers().size == 1) sum.clear()
      Iterator(told)
    }
  }

  final case class Narrow(n: Int)
  final case class Wide(n: Long, last: String)

  /** Counts a key's rows. */
  final class Narrowly extends StatefulProcessor[String, Key, (String, Long, String)] {
    @transient private var tally: ValueState[Narrow] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = tally =
      getHandle.getValueState[Narrow]("tally", Encoders.product[Narrow], TTLConfig.NONE)

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long, String)] = {
      val now = Narrow((if (tally.exists()) tally.get().n else 0) + rows.size)
      tally.update(now)
      Iterator((key, now.n.toLong, "narrow"))
    }
  }

  /** Counts a key's rows on, and tells the last of the batch before. */
  final class Widely extends StatefulProcessor[String, Key, (String, Long, String)] {
    @transient private var tally: ValueState[Wide] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = tally =
      getHandle.getValueState[Wide]("tally", Encoders.product[Wide], TTLConfig.NONE)

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long, String)] = {
      val all = rows.toVector
      val before = if (tally.exists()) tally.get() else Wide(0, "nothing")
      tally.update(Wide(before.n + all.size, all.map(r => String.valueOf(r.amount)).max))
      Iterator((key, before.n + all.size, String.valueOf(before.last)))
    }
  }
}
