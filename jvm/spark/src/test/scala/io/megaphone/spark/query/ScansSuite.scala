// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import scala.collection.mutable

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

import io.megaphone.format.StoreId
import io.megaphone.log.{Due, RowTime, Survey}
import io.megaphone.log.record.Record
import io.megaphone.runtime.DueScan
import io.megaphone.spark.executor.ExecutorHost
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
      val survey = Survey.of(holding.log(bin), registry.hashOf(worker.store).get)
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
    def scans: Map[(StoreId, String), DueScan] =
      Scans.of(running.plan.collect { case o: StatefulOperator if o.stateInfo.isDefined => o })
    def nameOf(scan: (StoreId, String)) = (scan._1.store, scan._2)
    def times = scans.map { case (id, scan) =>
      val at = if (scan.isInKey) 0 else rowAt
      val time =
        RowTime(scanned(nameOf(id)), scan.isInKey, at, scan.columns, scan.column, scan.field)
      id -> timesIn(running, id._1, time.copy(never = scan.never))
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

  private def timed(rows: Dataset[Key]) = rows.withWatermark("at", "3 seconds")

  for (mode <- Seq(OutputMode.Append(), OutputMode.Update()))
    test(s"An aggregate by a time window, in $mode mode.") {
      checkScans(mode, Default)(timed(_).groupBy(window(col("at"), "2 seconds"), col("id")).count())
    }

  test("An aggregate by the event time.") {
    checkScans(OutputMode.Update(), Default)(timed(_).groupBy(col("name"), col("at")).count())
  }

  test("Deduplications whose keys have the event time, or that are within the watermark.") {
    checkScans(OutputMode.Append(), Default)(
      timed(_).select("id", "at", "inner").dropDuplicates("id", "at", "inner")
    )
    checkScans(OutputMode.Append(), Default)(
      timed(_).select("id", "inner", "at").dropDuplicatesWithinWatermark("id", "inner")
    )
  }

  test("Sessions, and values with a checksum.") {
    def sessions(rows: Dataset[Key]) =
      timed(rows).groupBy(session_window(col("at"), "400 milliseconds"), col("id")).count()
    val ordered = Map(("default", "default") -> Record.OrderedFamilyMin)
    checkScans(OutputMode.Append(), ordered)(sessions)
    withConf("spark.sql.streaming.stateStore.rowChecksum.enabled" -> "true") {
      checkScans(OutputMode.Append(), ordered, rowAt = 8)(sessions)
    }
  }

  for (format <- 1 to 2)
    test(s"`flatMapGroupsWithState` with time-outs, in state format $format.") {
      val s = spark
      import s.implicits._
      withConf("spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion" -> s"$format") {
        checkScans(OutputMode.Update(), Default) {
          timed(_)
            .groupByKey(k => s"${k.name} ${k.id}")
            .flatMapGroupsWithState[Long, (String, Long)](
              OutputMode.Update(),
              GroupStateTimeout.EventTimeTimeout
            )((key, values, state) => untilDue(key, values, state))
            .toDF()
        }
      }
    }

  for (format <- 1 to 2)
    test(s"A join of two streams by the event time, in state format $format.") {
      withConf("spark.sql.streaming.join.stateFormatVersion" -> s"$format") {
        checkScans(
          OutputMode.Append(),
          Seq("left", "right").map(side => (s"$side-keyToNumValues", "default") -> 0).toMap
        )(joined("id = id2 and at = at2"))
      }
    }

  // From 4.3 on only Spark's RocksDB provider has this format.
  if (SPARK_VERSION < "4.3")
    for ((what, numbers, on) <- JoinsInFamilies)
      test(s"A join of two streams by $what, in state format 3.") {
        withConf("spark.sql.streaming.join.stateFormatVersion" -> "3") {
          checkScans(OutputMode.Append(), numbers)(joined(on))
        }
      }

  private def joined(on: String)(rows: Dataset[Key]): DataFrame = {
    val left = timed(rows).select("id", "at")
    left.join(timed(rows).select(col("id").as("id2"), col("at").as("at2")), expr(on))
  }

  test("What is not known to look for a time is not looked for.") {
    def scansOf(mode: OutputMode)(make: Dataset[Key] => DataFrame): Set[(StoreId, String)] = {
      val memory = MemoryStream[Key](spark)
      val running = start(make(memory.toDS()), mode.toString.toLowerCase(java.util.Locale.ROOT))
      memory.addData(rows(0))
      running.query.processAllAvailable()
      val operators =
        running.plan.collect { case o: StatefulOperator if o.stateInfo.isDefined => o }
      running.stop()
      Scans.of(operators).keySet
    }
    val windows =
      (rows: Dataset[Key]) => timed(rows).groupBy(window(col("at"), "2 seconds"), col("id")).count()
    assert(scansOf(OutputMode.Complete())(windows).isEmpty, "it gives all rows out")
    assert(scansOf(OutputMode.Update())(timed(_).groupBy("id").count()).isEmpty)
    assert(scansOf(OutputMode.Update())(_.groupBy().count()).isEmpty, "it reads its one row")
  }
}

object ScansSuite {
  private val Default = Map(("default", "default") -> 0)

  /** The families of a join have the numbers 1 to 4, in the order of their names. */
  private val JoinsInFamilies = Seq(
    ("the event time", scanned(1, 3), "id = id2 and at = at2"),
    (
      "a number within some time",
      scanned(2, 4),
      "id = id2 and at2 between at - interval 2 seconds and at + interval 2 seconds"
    )
  )

  private def scanned(left: Int, right: Int): Map[(String, String), Int] = Map(
    ("default", "left-keyToNumValues") -> left,
    ("default", "right-keyToNumValues") -> right
  )

  private def untilDue(
      key: String,
      values: Iterator[Key],
      state: GroupState[Long]
  ): Iterator[(String, Long)] =
    if (state.hasTimedOut) { state.remove(); Iterator.empty }
    else {
      val rows = values.toVector
      state.update(rows.size.toLong)
      // Some never time out.
      if (key.length % 3 > 0) state.setTimeoutTimestamp(rows.map(_.at.getTime).max + 1500)
      Iterator((key, rows.size.toLong))
    }
}
