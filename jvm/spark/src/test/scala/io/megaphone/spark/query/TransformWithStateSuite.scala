// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import java.nio.file.Path

import org.apache.spark.sql.{DataFrame, Dataset, Encoders}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.window
import org.apache.spark.sql.streaming._

import io.megaphone.spark.query.OperatorSession._
import io.megaphone.spark.query.TransformWithStateSuite._
import io.megaphone.spark.rule.StateStoreNames

/** `transformWithState`, with all that it may keep, gives on bins what it gives on the only
  * provider that Spark lets it run on.
  */
class TransformWithStateSuite extends OperatorSession {
  private def visits(rows: Dataset[Key]): DataFrame = {
    val s = spark
    import s.implicits._
    rows
      .withWatermark("at", "1 second")
      .groupByKey(k => (k.name, k.id))
      .transformWithState(new Visits, TimeMode.EventTime(), OutputMode.Append())
      .toDF()
  }

  for (encoding <- Seq("unsaferow", "avro"))
    test(
      s"Values, lists, maps and timers of many keys, encoded as $encoding.",
      isInShortRun = false
    ) {
      withConf("spark.sql.streaming.stateStore.encodingFormat" -> encoding) {
        check(OutputMode.Append(), OnRocks, batches = 5)(visits)(_ => ())
      }
    }

  for (format <- 1 to 2)
    test(
      "Timers that are due in the batch of a move fire once, whichever way the bins come, in " +
        s"checkpoint format $format.",
      format == 2
    ) {
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMoved(OutputMode.Append(), OnRocks, isDue = Some(says("is due")))(visits)
        ()
      }
    }

  for (format <- 1 to 2)
    test(
      "Timers by the clock, and state whose time to live ends, in the batch of a move: once, in " +
        s"checkpoint format $format.",
      format == 2
    ) {
      val s = spark
      import s.implicits._
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMovedByClock(
          OutputMode.Update(),
          OnRocks,
          (running, batch) => says("is due")(running, batch) && says("nothing")(running, batch)
        ) {
          _.groupByKey(k => String.valueOf(k.name))
            .transformWithState(new Fading, TimeMode.ProcessingTime(), OutputMode.Update())
            .toDF()
        }
      }
    }

  test(
    "Timers that a timer's handler sets or deletes are as on Spark's provider.",
    isInShortRun = false
  ) {
    val s = spark
    import s.implicits._
    check(OutputMode.Append(), OnRocks, batches = 6) {
      _.withWatermark("at", "1 second")
        .groupByKey(k => String.valueOf(k.name))
        .transformWithState(new Chimes, TimeMode.EventTime(), OutputMode.Append())
        .toDF()
    }(_ => ())
  }

  for (format <- 1 to 2)
    test(
      s"An initial state is routed as the stream is, and moves, in checkpoint format $format.",
      isInShortRun = false
    ) {
      val s = spark
      import s.implicits._
      val initial = Seq
        .tabulate(40)(i => (s"only $i", i.toLong))
        .toDS()
        .union(Seq(("a", 100L), ("", 200L)).toDS())
        .groupByKey(_._1)
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMoved(OutputMode.Update(), OnRocks) {
          _.groupByKey(k => String.valueOf(k.name))
            .transformWithState(new FromBefore, TimeMode.None(), OutputMode.Update(), initial)
            .toDF()
        }
        ()
      }
    }

  for (format <- 1 to 2)
    test(
      "One of them, and an aggregate by the event time that it hands on, move, in checkpoint " +
        s"format $format.",
      isInShortRun = false
    ) {
      val s = spark
      import s.implicits._
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
        checkMoved(OutputMode.Append(), OnRocks) { rows =>
          val first = rows
            .withWatermark("at", "1 second")
            .groupByKey(k => String.valueOf(k.id))
            .transformWithState(new Stamped, "at", OutputMode.Append())
          first.groupBy(window(first("at"), "2 seconds")).count().toDF()
        }
        ()
      }
    }

  /** Runs `batches` of a query over the same checkpoint, as a process that was started again does,
    * with a move to `workers` among them, if to any.
    */
  private def resumed(
      checkpoint: Path,
      memory: MemoryStream[Key],
      processor: StatefulProcessor[String, Key, (String, String)],
      batches: Range,
      workers: Option[Int]
  ): Seq[String] = {
    val s = spark
    import s.implicits._
    val query = memory
      .toDS()
      .groupByKey(k => String.valueOf(k.name))
      .transformWithState(processor, TimeMode.None(), OutputMode.Update())
      .toDF()
    val running = start(query, "update", checkpoint.toString)
    var batch = batches.start
    def feed(): Unit = { memory.addData(rows(batch)); batch += 1 }
    feed()
    running.query.processAllAvailable()
    workers.foreach(running.rescale(_, () => feed(), strategy = "all-at-once"))
    assert(batch <= batches.end, "the move took more batches than are compared")
    while (batch < batches.end) { feed(); running.query.processAllAvailable() }
    running.stop()
    sorted(running.all)
  }

  for (encoding <- Seq("unsaferow", "avro"))
    test(
      "A query that is started again with another variable, and then without it, keeps the " +
        s"others across moves; encoded as $encoding.",
      isInShortRun = false
    ) {
      def run(workers: Option[Int]*): Seq[String] = {
        val checkpoint = folder("checkpoint")
        val memory = MemoryStream[Key](spark)
        resumed(checkpoint, memory, new Tally(Seq("m")), 0 until 4, workers(0)) ++
          resumed(checkpoint, memory, new Tally(Seq("z", "a", "m")), 4 until 8, workers(1)) ++
          resumed(
            checkpoint,
            memory,
            new Tally(Seq("m", "z"), dropped = Seq("a")),
            8 until 10,
            None
          ) ++
          resumed(checkpoint, memory, new Tally(Seq("a", "m", "z")), 10 until 14, workers(2))
      }
      withConf("spark.sql.streaming.stateStore.encodingFormat" -> encoding) {
        val onBins = run(Some(3), Some(8), Some(5))
        assert(
          onBins == withConf("spark.sql.streaming.stateStore.providerClass" -> OnRocks)(
            run(None, None, None)
          )
        )
      }
    }

  test("Spark refuses our provider by its name alone, in the one place where that is lifted.") {
    val memory = MemoryStream[Key](spark)
    val running = start(visits(memory.toDS()), "append")
    memory.addData(rows(0))
    running.query.processAllAvailable()
    val operator = running.plan.collectFirst { case o: TransformWithStateExec => o }.get
    def copy() = operator
      .makeCopy(operator.productIterator.map(_.asInstanceOf[AnyRef]).toArray)
      .asInstanceOf[TransformWithStateExec]
    val refused = intercept[Exception](copy().execute())
    assert(refused.getMessage.contains("STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"), refused.getMessage)
    val lifted = copy()
    StateStoreNames.allow(lifted)
    lifted.execute()
  }
}

object TransformWithStateSuite {
  private def read(count: ValueState[Long]): Long = if (count.exists()) count.get() else 0L

  /** Counts by key in a value, a list and a map, and tells what it has once a timer is due. */
  final class Visits
      extends StatefulProcessor[(String, java.lang.Long), Key, (String, Long, String)] {
    @transient private var count: ValueState[Long] = _
    @transient private var amounts: ListState[String] = _
    @transient private var byInner: MapState[String, Long] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
      count = getHandle.getValueState[Long]("count", Encoders.scalaLong, TTLConfig.NONE)
      amounts = getHandle.getListState[String]("amounts", Encoders.STRING, TTLConfig.NONE)
      byInner = getHandle.getMapState[String, Long](
        "byInner",
        Encoders.STRING,
        Encoders.scalaLong,
        TTLConfig.NONE
      )
    }

    override def handleInputRows(
        key: (String, java.lang.Long),
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long, String)] = {
      rows.toVector
        .sortBy(r => (r.at.getTime, String.valueOf(r.inner), String.valueOf(r.amount)))
        .foreach { row =>
          count.update(read(count) + 1)
          amounts.appendValue(String.valueOf(row.amount))
          val inner = String.valueOf(row.inner)
          byInner.updateValue(
            inner,
            (if (byInner.containsKey(inner)) byInner.getValue(inner) else 0L) + 1
          )
          val due = row.at.getTime + 1500
          if (!getHandle.listTimers().contains(due)) getHandle.registerTimer(due)
        }
      if (count.get() % 7 == 0) byInner.clear()
      if (count.get() % 5 == 0) amounts.put(amounts.get().toArray.takeRight(2))
      Iterator((key.toString, count.get(), kept))
    }

    override def handleExpiredTimer(
        key: (String, java.lang.Long),
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[(String, Long, String)] = {
      val told = (s"$key is due at ${expired.getExpiryTimeInMs()}", read(count), kept)
      if (getHandle.listTimers().size == 1) { count.clear(); amounts.clear(); byInner.clear() }
      Iterator(told)
    }

    private def kept: String =
      amounts.get().toVector.sorted.mkString(" ") + byInner.iterator().toVector.sorted.mkString(" ")
  }

  /** Keeps values for 2.5 s. Reports after 1.5 s, and with each row, which are left. */
  final class Fading extends StatefulProcessor[String, Key, (String, String)] {
    @transient private var last: ValueState[String] = _
    @transient private var ids: ListState[String] = _
    @transient private var byInner: MapState[String, Long] = _
    private def ttl = TTLConfig(java.time.Duration.ofMillis(2500))

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
      last = getHandle.getValueState[String]("last", Encoders.STRING, ttl)
      ids = getHandle.getListState[String]("ids", Encoders.STRING, ttl)
      byInner =
        getHandle.getMapState[String, Long]("byInner", Encoders.STRING, Encoders.scalaLong, ttl)
    }

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, String)] = {
      val before = kept
      rows.toVector
        .sortBy(r => (r.at.getTime, String.valueOf(r.inner), String.valueOf(r.id)))
        .foreach { row =>
          last.update(String.valueOf(row.id))
          ids.appendValue(String.valueOf(row.id))
          byInner.updateValue(String.valueOf(row.inner), row.at.getTime)
        }
      getHandle.registerTimer(timers.getCurrentProcessingTimeInMs() + 1500)
      Iterator((key, before))
    }

    override def handleExpiredTimer(
        key: String,
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[(String, String)] =
      Iterator((s"$key is due at ${expired.getExpiryTimeInMs()}", kept))

    private def kept: String = {
      val all =
        (if (last.exists()) Seq(last.get()) else Nil) ++ ids.get().toVector.sorted ++ byInner
          .iterator()
          .toVector
          .sorted
      if (all.isEmpty) "nothing" else all.mkString(" ")
    }
  }

  /** Sets a timer in the handler of another, and deletes one. */
  final class Chimes extends StatefulProcessor[String, Key, (String, Long)] {
    @transient private var left: ValueState[Int] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = left =
      getHandle.getValueState[Int]("left", Encoders.scalaInt, TTLConfig.NONE)

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long)] = {
      val last = rows.map(_.at.getTime).max
      left.update(4)
      Seq(last + 100, last + 4000)
        .filterNot(getHandle.listTimers().contains)
        .foreach(getHandle.registerTimer(_))
      Iterator.empty
    }

    override def handleExpiredTimer(
        key: String,
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[(String, Long)] = {
      val now = expired.getExpiryTimeInMs()
      if (left.get() > 0) {
        left.update(left.get() - 1)
        if (!getHandle.listTimers().contains(now + 1))
          getHandle.registerTimer(now + 1) // due at once: in the next batch, not in this one
      }
      getHandle.listTimers().filter(_ > now + 3000).toVector.foreach(getHandle.deleteTimer)
      Iterator((key, now))
    }
  }

  final class FromBefore
      extends StatefulProcessorWithInitialState[String, Key, (String, Long), (String, Long)] {
    @transient private var sum: ValueState[Long] = _
    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = sum =
      getHandle.getValueState[Long]("sum", Encoders.scalaLong, TTLConfig.NONE)
    override def handleInitialState(
        key: String,
        initial: (String, Long),
        timers: TimerValues
    ): Unit = sum.update(initial._2)
    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long)] = {
      sum.update(read(sum) + rows.size)
      Iterator((key, sum.get()))
    }
  }

  final case class Seen(id: String, count: Long, at: java.sql.Timestamp)

  /** Hands on an event time. */
  final class Stamped extends StatefulProcessor[String, Key, Seen] {
    @transient private var count: ValueState[Long] = _
    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = count =
      getHandle.getValueState[Long]("count", Encoders.scalaLong, TTLConfig.NONE)
    override def handleInputRows(
        id: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[Seen] = {
      val all = rows.toVector
      count.update(read(count) + all.size)
      Iterator(
        Seen(id, count.get(), all.map(_.at).max(Ordering.by((t: java.sql.Timestamp) => t.getTime)))
      )
    }
  }

  /** Counts in as many variables as it is told, and drops others. */
  final class Tally(names: Seq[String], dropped: Seq[String] = Nil)
      extends StatefulProcessor[String, Key, (String, String)] {
    @transient private var counts: Seq[ValueState[Long]] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
      dropped.foreach(getHandle.deleteIfExists)
      counts = names.map(getHandle.getValueState[Long](_, Encoders.scalaLong, TTLConfig.NONE))
    }

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, String)] = {
      val more = rows.size
      counts.foreach(c => c.update(read(c) + more))
      Iterator(
        (key, names.zip(counts).sortBy(_._1).map { case (n, c) => s"$n ${c.get()}" }.mkString(", "))
      )
    }
  }
}
