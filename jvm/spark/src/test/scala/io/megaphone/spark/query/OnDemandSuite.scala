// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.megaphone.ClockedQuery
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.spark.query.DueByTime._
import io.megaphone.spark.query.OperatorSession._
import io.megaphone.spark.rule.GroupExec

/** Operators that look at all rows of their state, over a step on demand from one executor to
  * another. The step's batch lets go what is due, brings it for that from the other executor, and
  * leaves there what is not; where it is not known what is due, it brings all. Each batch gives out
  * what it gives out on Spark's own provider. The tests run with all tests only.
  */
class OnDemandSuite extends OperatorSession {
  import OnDemandSuite._

  override protected def settings: Map[String, String] = super.settings ++ Map(
    "spark.master" -> "local-cluster[2,1,1024]",
    "spark.locality.wait" -> "20s",
    "spark.megaphone.bins" -> "64",
    "spark.sql.shuffle.partitions" -> "4",
    // No answer is given up, however slow the machine is.
    "spark.megaphone.transfer.tailDeadlineMs" -> "60000",
    // The rest of what the step took does not come while it is looked at.
    "spark.megaphone.transfer.maxBytesPerSecond" -> "1",
    // Each batch has rows, and so the same number on both providers.
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  /** Runs batches on bins, with the step among them, and on a provider of Spark's. */
  private def compare(sparks: String, looks: (Running, Long) => Unit)(
      make: MemoryStream[Key] => (Running, () => Unit)
  ): Unit = {
    def run(move: (Running, () => Unit) => Unit): Map[Long, Seq[String]] = {
      val memory = MemoryStream[Key](spark)
      val (running, settle) = make(memory)
      var batch = 0
      def round(): Unit = { memory.addData(rows(batch)); batch += 1; settle() }
      for (_ <- 1 to BatchesBefore) round()
      move(running, () => round())
      assert(batch <= Batches, "the move took more batches than are compared")
      while (batch < Batches) round()
      running.stop()
      running.byBatch.map { case (id, given) => id -> sorted(given) }.toMap
    }
    val onBins = run { (running, round) =>
      running.rescaleInto(workers = 1, "on-demand", "all-at-once")(round())
      looks(running, running.movedIn.head)
    }
    val onSpark = withConf(
      "spark.sql.streaming.stateStore.providerClass" -> sparks,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "1"
    )(run((_, _) => ()))
    assert(onBins.keySet == onSpark.keySet)
    for (batch <- onBins.keys.toSeq.sorted)
      assert(onBins(batch) == onSpark(batch), s"in batch $batch")
    assert(onBins.values.exists(_.nonEmpty))
  }

  private def checkStep(
      looks: (Running, Long) => Unit,
      mode: OutputMode = OutputMode.Append(),
      sparks: String = OnMaps
  )(make: Dataset[Key] => DataFrame): Unit = compare(sparks, looks) { memory =>
    val running = start(make(memory.toDS()), nameOf(mode))
    (running, () => running.query.processAllAvailable())
  }

  /** The same for a query that goes by the clock, with a batch a second. */
  private def checkStepByClock(looks: (Running, Long) => Unit, sparks: String = OnMaps)(
      make: Dataset[Key] => DataFrame
  ): Unit = compare(sparks, looks) { memory =>
    val folder = this.folder("checkpoint").toString
    val clocked = new ClockedQuery(spark, make(memory.toDS()), OutputMode.Update(), folder)
    (new Running(clocked.query, clocked.byBatch), () => clocked.tick())
  }

  private def told(running: Running, batch: Long, column: String, stores: String): Long =
    running
      .migrationsIn(batch)
      .filter(_.get("store").asText.matches(stores))
      .map(_.get(column).asLong)
      .sum

  private def checkBrought(running: Running, batch: Long, stores: String)(
      left: Long => Boolean
  ): Unit = {
    def all = running.migrationsIn(batch)
    assert(told(running, batch, "sub_bins", stores) > 0, s"nothing was asked for: $all")
    assert(left(told(running, batch, "bins_incomplete", stores)), s"bins incomplete: $all")
    assert(told(running, batch, "bins_from_checkpoint", stores) == 0, all)
  }

  /** Spark's own progress tells the same of a batch. */
  private def checkProgress(running: Running, batch: Long): Unit = eventually(timeout(60.seconds)) {
    for ((metric, column) <- Columns) {
      val metrics = running.progressOf(batch).map(_.customMetrics.get(metric).longValue)
      assert(metrics.sum > 0 && metrics.sum == told(running, batch, column, ".*"), metric)
    }
  }

  /** What was asked for came, and something is left where it was. */
  private def leavesSome(running: Running, batch: Long): Unit =
    checkBrought(running, batch, ".*")(_ > 0)

  /** The same; and rows were let go in the step's own batch. */
  private def letsGo(isDue: (Running, Long) => Boolean)(running: Running, batch: Long): Unit = {
    assert(isDue(running, batch), s"nothing was due in batch $batch, in which bins moved")
    leavesSome(running, batch)
  }

  private def letsGoAsProgressTells(running: Running, batch: Long): Unit = {
    letsGo(removes)(running, batch)
    checkProgress(running, batch)
  }

  /** Of joins here, the stores have other names. */
  private def bringsAll(running: Running, batch: Long): Unit =
    checkBrought(running, batch, "default")(_ == 0)

  for ((what, shape) <- Shapes)
    test(s"$what.", isInShortRun = false) {
      checkStep(letsGoAsProgressTells)(rows => shape(timed(rows)))
    }

  for (format <- 1 to 2)
    test(
      s"What a deduplication forgets in the step's batch, in checkpoint format $format.",
      isInShortRun = false
    ) {
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> s"$format") {
        checkStep(letsGo(removes))(rows => uniqueWithin(timed(rows)))
      }
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

  joinIn(2, "A join by the event time", letsGo(removes)) { rows =>
    atOnce("inner", timed(rows), timed(rows))
  }

  joinIn(2, "A join by the event time of one side", letsGo(removes)) { rows =>
    atOnce("inner", timed(rows), rows)
  }

  joinIn(2, "A join within some time of one side's event time, which lets nothing go", leavesSome) {
    rows => near("inner", timed(rows), rows)
  }

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
  private val BatchesBefore = 3
  private val ValuesThatEnded = "numValuesRemovedDueToTTLExpiry"
  private val Batches = 16

  private val Shapes: Seq[(String, Dataset[_] => DataFrame)] = Seq(
    "An aggregate by a time window" -> windows,
    "An aggregate by a window of another name" -> namedWindows,
    "An aggregate by the event time" -> times,
    "Sessions" -> sessions,
    "A deduplication with the event time" -> uniqueTimes
  )

  /** What Spark's progress and the table `migrations` both tell. */
  private val Columns = Seq(
    "megaphoneSubBins" -> "sub_bins",
    "megaphoneBinsIncomplete" -> "bins_incomplete",
    "megaphoneBytesToCome" -> "bytes_to_come"
  )

  private def nameOf(mode: OutputMode) = mode.toString.toLowerCase(java.util.Locale.ROOT)
}
