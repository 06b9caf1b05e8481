// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import java.time.Duration

import scala.collection.mutable

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{AnalysisException, DataFrame, Dataset, Encoders}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{
  ExpiredTimerInfo, OutputMode, StatefulProcessor, TimeMode, TimerValues, TTLConfig, ValueState
}

import io.megaphone.format.StoreId
import io.megaphone.log.{Due, RowTime, Survey}
import io.megaphone.log.record.Record
import io.megaphone.runtime.DueScan
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.query.DueByTime._
import io.megaphone.spark.query.OperatorSession._
import io.megaphone.spark.rule.Scans

/** Of each operator that looks at all rows of its state, what it acts on is what is known to be
  * due: in each batch all rows that are due go, and no other does. A Spark that scans in another
  * way fails here.
  */
class ScansSuite extends OperatorSession {
  import ScansSuite._

  /** The hashes of the sub-bins of a store by the times of their rows. */
  private def timesIn(running: Running, store: StoreId, time: RowTime): Map[Long, Set[Int]] = {
    val registry = ExecutorHost.active.get.agent.registry
    val times = mutable.Map.empty[Long, Set[Int]]
    for {
      worker <- registry.workers(_ => true)
      if worker.store.run == running.query.runId.toString && worker.store.id == store
      holding <- registry.holding(worker)
      bin <- holding.bins
    } {
      val survey = Survey.of(holding.log(bin), registry.keyReaderOf(worker.store).get)
      var (seen, (_, next)) = (Set.empty[Int], survey.due(Due(time, Long.MinValue)))
      while (next < Long.MaxValue) {
        val (upTo, later) = survey.due(Due(time, next))
        times(next) = times.getOrElse(next, Set.empty) ++ upTo.filterNot(seen)
        seen ++= upTo
        next = later
      }
    }
    times.toMap
  }

  /** What the last batch's operators were known to look for. */
  private def scansIn(running: Running): Map[(StoreId, String), DueScan] =
    Scans.of(running.plan.collect { case o: StatefulOperator if o.stateInfo.isDefined => o })

  private def upTo(times: Map[Long, Set[Int]], until: Long) =
    times.iterator.collect { case (time, hashes) if time <= until => hashes }.flatten.toSet

  /** @param scanned
    *   by store and family: the number of the family that has the times
    */
  private def checkScans(mode: OutputMode, scanned: Map[(String, String), Int], rowAt: Int = 0)(
      make: Dataset[Key] => DataFrame
  ): Unit = withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
    val memory = MemoryStream[Key](spark)
    val running = start(make(memory.toDS()), mode.toString.toLowerCase(java.util.Locale.ROOT))
    def scans = scansIn(running)
    def nameOf(scan: (StoreId, String)) = (scan._1.store, scan._2)
    def times = scans.map { case (id, scan) =>
      id -> timesIn(
        running,
        id._1.copy(store = scan.store),
        timeOf(scan, scanned(nameOf(id)), rowAt)
      )
    }
    var before = Map.empty[(StoreId, String), Map[Long, Set[Int]]]
    var (gone, stayed) = (0, 0)
    for (batch <- 0 until 5) {
      memory.addData(rows(batch))
      running.query.processAllAvailable()
      assert(scans.keySet.map(nameOf) == scanned.keySet, s"in batch $batch")
      val after = times
      for ((id, scan) <- scans) {
        assert(upTo(after(id), scan.until).isEmpty, s"due rows of $id stayed in batch $batch")
        val all = before.getOrElse(id, Map.empty)
        val due = upTo(all, scan.until)
        val others = upTo(all, Long.MaxValue) -- due
        assert(
          others.subsetOf(upTo(after(id), Long.MaxValue)),
          s"rows of $id that are not due have gone in batch $batch"
        )
        gone += due.size
        stayed += others.size
      }
      before = after
    }
    running.stop()
    assert(gone > 0, "nothing was ever due")
    assert(stayed > 0, "everything was due")
  }

  private def timeOf(scan: DueScan, family: Int, rowAt: Int): RowTime =
    if (scan.family.startsWith("$")) RowTime.InOrder(family)
    else {
      val at = if (scan.isInKey) 0 else rowAt
      RowTime.InRow(family, scan.isInKey, at, scan.columns, scan.column, scan.field, scan.never)
    }

  for (mode <- Seq(OutputMode.Append(), OutputMode.Update()))
    test(s"An aggregate by a time window, in $mode mode.") {
      checkScans(mode, Default)(rows => windows(timed(rows)))
    }

  test("An aggregate by a time window that has another name.") {
    checkScans(OutputMode.Append(), Default)(rows => namedWindows(timed(rows)))
  }

  test("An event time that has no time zone is refused by Spark before it comes to us.") {
    val error = intercept[AnalysisException] {
      val memory = MemoryStream[Key](spark)
      timed(memory.toDS().withColumn("at", col("at").cast("timestamp_ntz"))).queryExecution.analyzed
    }
    assert(error.getCondition == "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE")
  }

  test("An aggregate by the event time.") {
    checkScans(OutputMode.Update(), Default)(rows => times(timed(rows)))
  }

  test("Deduplications whose keys have the event time, or that are within the watermark.") {
    for (shape <- Seq(uniqueTimes(_), uniqueWithin(_)))
      checkScans(OutputMode.Append(), Default)(rows => shape(timed(rows)))
  }

  test("Sessions, and values with a checksum.") {
    checkScans(OutputMode.Append(), Ordered)(rows => sessions(timed(rows)))
    withConf("spark.sql.streaming.stateStore.rowChecksum.enabled" -> "true") {
      checkScans(OutputMode.Append(), Ordered, rowAt = 8)(rows => sessions(timed(rows)))
    }
  }

  for (format <- 1 to 2)
    test(s"`flatMapGroupsWithState` with time-outs, in state format $format.") {
      withConf("spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion" -> s"$format") {
        checkScans(OutputMode.Update(), Default)(countedByTime)
      }
    }

  for (isMap <- Seq(false, true))
    test(s"`${if (isMap) "map" else "flatMap"}GroupsWithState` with time-outs by the clock.") {
      checkScans(OutputMode.Update(), Default)(countedByClock(soonMs = 1, isMap))
    }

  /** The families have numbers by the order of their names; that of the rows has 0. */
  private def checkProcessor(
      processor: StatefulProcessor[String, Key, (String, Long)],
      mode: TimeMode,
      scanned: (String, Int)*
  ): Unit = {
    val s = spark
    import s.implicits._
    val families = scanned.map { case (family, number) =>
      ("default", family) -> (Record.OrderedFamilyMin + number)
    }
    checkScans(OutputMode.Update(), families.toMap) {
      timed(_)
        .groupByKey(k => s"${k.name} ${k.id}")
        .transformWithState(processor, mode, OutputMode.Update())
        .toDF()
    }
  }

  test("Timers of `transformWithState` by the event time.") {
    checkProcessor(
      new UntilDue(_.at.getTime + 1500),
      TimeMode.EventTime(),
      "$eventTimers_timestampToKey" -> 2
    )
  }

  test("Timers of `transformWithState` by the clock.") {
    checkProcessor(
      new UntilDue(key => System.currentTimeMillis + (if (key.id % 3 > 0) 1 else HourMs)),
      TimeMode.ProcessingTime(),
      "$procTimers_timestampToKey" -> 2
    )
  }

  test("Values of `transformWithState` that live for some time.") {
    checkProcessor(
      new ForSomeTime,
      TimeMode.ProcessingTime(),
      "$procTimers_timestampToKey" -> 2,
      "$ttl_brief" -> 3,
      "$ttl_long" -> 4
    )
  }

  for (
    (what, kind, families, join) <- Joins; format <- 1 to 3
    // From 4.3 on only Spark's RocksDB provider has the third format.
    if format < 3 || SPARK_VERSION < "4.3"
    // Spark refuses all but inner joins in the first one.
    if format > 1 || kind == "inner"
  )
    test(s"A join of two streams, $kind, by $what, in state format $format.") {
      withConf("spark.sql.streaming.join.stateFormatVersion" -> s"$format") {
        val scanned =
          if (format < 3) InTwoStores
          else Sides.map(side => ("default", side)).zip(families).toMap
        checkScans(OutputMode.Append(), scanned) { rows =>
          join(kind, timed(rows), timed(rows))
        }
      }
    }

  test("A join by the event time of one side, which is that of the other side, too.") {
    withConf("spark.sql.streaming.join.stateFormatVersion" -> "2") {
      checkScans(OutputMode.Append(), InTwoStores) { rows =>
        atOnce("inner", timed(rows), rows)
      }
    }
  }

  test("What is not known to look for a time is not looked for.") {
    def scansOf(mode: OutputMode)(make: Dataset[Key] => DataFrame): Set[(StoreId, String)] = {
      val memory = MemoryStream[Key](spark)
      val running = start(make(memory.toDS()), mode.toString.toLowerCase(java.util.Locale.ROOT))
      memory.addData(rows(0))
      running.query.processAllAvailable()
      val scans = scansIn(running)
      running.stop()
      scans.keySet
    }
    val all = (rows: Dataset[Key]) => windows(timed(rows))
    assert(scansOf(OutputMode.Complete())(all).isEmpty, "it gives all rows out")
    assert(scansOf(OutputMode.Update())(timed(_).groupBy("id").count()).isEmpty)
    assert(scansOf(OutputMode.Update())(_.groupBy().count()).isEmpty, "it reads its one row")
  }
}

object ScansSuite {
  private val Default = Map(("default", "default") -> 0)

  private val Ordered = Map(("default", "default") -> Record.OrderedFamilyMin)
  private val Sides = Seq("left", "right").map(_ + "-keyToNumValues")
  private val InTwoStores = Sides.map(side => (side, "default") -> 0).toMap

  /** By what they join, how, and the families that have the times: in format 3 they have the
    * numbers 1 to 4, in the order of their names.
    */
  private val Joins
      : Seq[(String, String, Seq[Int], (String, Dataset[_], Dataset[_]) => DataFrame)] =
    ("the event time", "inner", Seq(1, 3), atOnce(_, _, _)) +:
      Seq("inner", "full_outer", "left_outer", "right_outer", "left_semi").map { kind =>
        ("a number within some time", kind, Seq(2, 4), near(_, _, _))
      }

  /** Counts the rows of a key until one of its timers is due. */
  private final class UntilDue(dueMs: Key => Long)
      extends StatefulProcessor[String, Key, (String, Long)] {
    @transient private var count: ValueState[Long] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
      count = getHandle.getValueState("count", Encoders.scalaLong, TTLConfig.NONE)

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long)] = {
      val all = rows.toVector
      count.update(count.get() + all.size)
      getHandle.registerTimer(all.map(dueMs).max)
      Iterator((key, all.size.toLong))
    }

    override def handleExpiredTimer(
        key: String,
        timers: TimerValues,
        expired: ExpiredTimerInfo
    ): Iterator[(String, Long)] = { count.clear(); Iterator((s"$key is due", 0L)) }
  }

  /** Counts the rows of a key, in a value that is gone by the next batch and in one that stays. */
  private final class ForSomeTime extends StatefulProcessor[String, Key, (String, Long)] {
    @transient private var counts: Seq[ValueState[Long]] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
      counts = Seq("brief" -> 1L, "long" -> HourMs).map { case (name, ms) =>
        getHandle.getValueState(name, Encoders.scalaLong, TTLConfig(Duration.ofMillis(ms)))
      }

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long)] = {
      val found = rows.size.toLong
      counts.foreach(count => count.update(count.get() + found))
      Iterator((key, found))
    }
  }
}
