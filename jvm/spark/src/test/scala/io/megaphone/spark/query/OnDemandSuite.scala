// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}

import io.megaphone.spark.query.DueByTime._
import io.megaphone.spark.query.OperatorSession._
import io.megaphone.spark.rule.GroupExec

/** Operators that look at all rows of their state, over a step on demand from one executor to
  * another. The step's batch lets go what is due, brings it for that from the other executor, and
  * leaves there what is not; where it is not known what is due, it brings all. Each batch gives out
  * what it gives out on Spark's own provider. The tests run with all tests only.
  */
class OnDemandSuite extends OnDemandSession {
  import OnDemandSuite._

  for ((what, shape) <- Shapes)
    test(s"$what.", isInShortRun = false) {
      checkStep(letsGoAsProgressTells)(rows => shape(timed(rows)))
    }

  testInBothFormats("What a deduplication forgets in the step's batch") {
    checkStep(letsGo(removes))(rows => uniqueWithin(timed(rows)))
  }

  test("A deduplication whose values have a checksum before the time.", isInShortRun = false) {
    withConf("spark.sql.streaming.stateStore.rowChecksum.enabled" -> "true") {
      checkStep(letsGo(removes))(rows => uniqueWithin(timed(rows)))
    }
  }

  private def joinIn(format: Int, name: String, looks: (Running, Long) => Unit)(
      make: Dataset[Key] => DataFrame
  ): Unit = test(s"$name, in state format $format.", isInShortRun = false) {
    withConf("spark.sql.streaming.join.stateFormatVersion" -> s"$format") {
      checkStep(looks, sparks = if (format > 2) OnRocks else OnMaps)(make)
    }
  }

  /** The same; and something is left of each of a join's stores. */
  private def ofEachStore(looks: (Running, Long) => Unit)(running: Running, batch: Long): Unit = {
    looks(running, batch)
    for (side <- Seq("left", "right"); store <- Seq("keyToNumValues", "keyWithIndexToValue")) {
      val left = told(running, batch, "bins_incomplete", s"$side-$store")
      assert(left > 0, s"nothing is left of $side-$store: ${running.migrationsIn(batch)}")
    }
  }

  for (
    kind <- Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi");
    // Spark refuses all but inner joins in the first one.
    format <- if (kind == "inner") 1 to 2 else Seq(2)
  )
    // Spark counts no row that a full outer join lets go: it gives those out that have met none.
    joinIn(
      format,
      s"A join within some time, $kind",
      ofEachStore(letsGo(if (kind == "full_outer") says(",null]") else removes))
    ) { rows =>
      near(kind, timed(rows), timed(rows))
    }

  joinIn(2, "A join by the event time", ofEachStore(letsGo(removes))) { rows =>
    atOnce("inner", timed(rows), timed(rows))
  }

  joinIn(2, "A join by the event time of one side", ofEachStore(letsGo(removes))) { rows =>
    atOnce("inner", timed(rows), rows)
  }

  joinIn(
    2,
    "A join within some time of one side's event time, which lets nothing go",
    ofEachStore(leavesSome)
  )(rows => near("inner", timed(rows), rows))

  for ((what, isMap) <- Seq("flatMapGroupsWithState" -> false, "mapGroupsWithState" -> true))
    test(s"`$what` with time-outs by the clock.", isInShortRun = false) {
      checkStepByClock(letsGo(says("is due")))(countedByClock(soonMs = 1500, isMap))
    }

  for (format <- 1 to 2)
    test(
      s"`flatMapGroupsWithState` with time-outs by the event time, in state format $format.",
      isInShortRun = false
    ) {
      withConf("spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion" -> s"$format") {
        checkStep(letsGo(says("is due")), OutputMode.Update())(countedByTime)
      }
    }

  private def visits(rows: Dataset[Key]): DataFrame = {
    val s = spark
    import s.implicits._
    timed(rows)
      .groupByKey(k => (k.name, k.id))
      .transformWithState(
        new TransformWithStateSuite.Visits,
        TimeMode.EventTime(),
        OutputMode.Append()
      )
      .toDF()
  }

  for (encoding <- Seq("unsaferow", "avro"))
    test(s"Timers of `transformWithState`, encoded as $encoding.", isInShortRun = false) {
      withConf("spark.sql.streaming.stateStore.encodingFormat" -> encoding) {
        checkStep(letsGo(says("is due")), sparks = OnRocks)(visits)
      }
    }

  test("Timers of `transformWithState` by the clock, and values' ends.", isInShortRun = false) {
    val s = spark
    import s.implicits._
    def isDue(running: Running, batch: Long) = says("is due")(running, batch) &&
      running.progressOf(batch).exists(_.customMetrics.get(ValuesThatEnded) > 0)
    checkStepByClock(letsGo(isDue), OnRocks) {
      _.groupByKey(k => String.valueOf(k.name))
        .transformWithState(
          new TransformWithStateSuite.Fading,
          TimeMode.ProcessingTime(),
          OutputMode.Update()
        )
        .toDF()
    }
  }

  test("A deduplication of rows that have two event times brings all.", isInShortRun = false) {
    withConf(
      "spark.sql.streaming.join.stateFormatVersion" -> "2",
      // From Spark 4.0 on a stream may have one, unless it is told to do as it did before.
      "spark.sql.streaming.statefulOperator.allowMultiple" -> "false",
      "spark.sql.streaming.unsupportedOperationCheck" -> "false"
    ) {
      checkStep(bringsAll) { rows =>
        near("inner", timed(rows), timed(rows)).dropDuplicates("id", "at", "at2")
      }
    }
  }

  if (SPARK_VERSION < "4.3") // From there on only Spark's RocksDB provider has such formats.
    for (format <- 3 to 4)
      joinIn(
        format,
        s"A join within some time${if (format == 4) " brings all" else ""}",
        if (format == 4) bringsAll else letsGo(says(",null]"))
      ) { rows =>
        near("full_outer", timed(rows), timed(rows))
      }

  test("Two operators that share their tasks each bring what they need.", isInShortRun = false) {
    checkStep(bringsForBoth, OutputMode.Update()) { rows =>
      timed(rows).dropDuplicatesWithinWatermark("id").groupBy("id").count()
    }
  }

  private def bringsForBoth(running: Running, batch: Long): Unit = {
    assert(running.plan.collect { case g: GroupExec => g }.size == 1)
    val asking = running.migrationsIn(batch).filter(_.get("sub_bins").asLong > 0)
    assert(asking.map(_.get("operator").asLong).toSet == Set(0, 1))
    letsGo(removes)(running, batch)
  }

  test("Two actions of one batch give the same rows.", isInShortRun = false) {
    def twice(batch: DataFrame): Seq[Row] = {
      val (first, second) = (batch.collect().toSeq, batch.collect().toSeq)
      assert(sorted(first) == sorted(second))
      second
    }
    def removesAndLeaves(running: Running, batch: Long): Unit = {
      assert(removes(running, batch) && told(running, batch, "bins_incomplete", ".*") > 0)
      assert(told(running, batch, "bins_from_checkpoint", ".*") == 0)
    }
    compare(OnMaps, removesAndLeaves) { memory =>
      val running = start(windows(timed(memory.toDS())), "update", rowsOf = twice)
      (running, () => running.query.processAllAvailable())
    }
  }

  test("Complete mode brings all.", isInShortRun = false) {
    checkStep(bringsAll, OutputMode.Complete())(rows => windows(timed(rows)))
  }
}

object OnDemandSuite {
  private val ValuesThatEnded = "numValuesRemovedDueToTTLExpiry"

  private val Shapes: Seq[(String, Dataset[_] => DataFrame)] = Seq(
    "An aggregate by a time window" -> windows,
    "An aggregate by a window of another name" -> namedWindows,
    "An aggregate by the event time" -> times,
    "Sessions" -> sessions,
    "Sessions with gaps of their rows" -> sessionsOfRows,
    "A deduplication with the event time" -> uniqueTimes
  )
}
