// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.megaphone.ClockedQuery
import org.apache.spark.sql.streaming.OutputMode
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.spark.query.OperatorSession._

/** Two executors, and a step on demand from one to the other among the batches of a query. Each
  * batch gives out what it gives out on Spark's own provider.
  */
abstract class OnDemandSession extends OperatorSession {
  import OnDemandSession._

  override protected def settings: Map[String, String] =
    super.settings ++ OperatorSession.TwoExecutors ++ Map(
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
  protected def compare(sparks: String, looks: (Running, Long) => Unit)(
      make: MemoryStream[Key] => (Running, () => Unit)
  ): Unit = {
    def run(move: (Running, () => Unit) => Unit): Map[Long, Seq[String]] = {
      val memory = MemoryStream[Key](spark)
      val (running, settle) = make(memory)
      val rounds = new Rounds(memory)
      rounds.before(settle())
      move(running, () => rounds.next(settle()))
      rounds.rest(settle())
      running.stop()
      rowsByBatch(running)
    }
    compareRuns(sparks, looks)(run)
  }

  /** The batches of one run. Each takes the next rows, and then waits for `settle`. */
  protected final class Rounds(memory: MemoryStream[Key]) {
    private var batch = 0
    def next(settle: => Unit): Unit = { memory.addData(rows(batch)); batch += 1; settle }
    def before(settle: => Unit): Unit = for (_ <- 1 to BatchesBefore) next(settle)
    def rest(settle: => Unit): Unit = {
      assert(batch <= Batches, "the move took more batches than are compared")
      while (batch < Batches) next(settle)
    }
  }

  protected def rowsByBatch(running: Running): Map[Long, Seq[String]] =
    running.byBatch.map { case (id, given) => id -> sorted(given) }.toMap

  /** The same of a query that is run by the test. It is told what moves its bins, with which it
    * makes some batches.
    */
  protected def compareRuns(sparks: String, looks: (Running, Long) => Unit)(
      run: ((Running, () => Unit) => Unit) => Map[Long, Seq[String]]
  ): Unit = {
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

  protected def checkStep(
      looks: (Running, Long) => Unit,
      mode: OutputMode = OutputMode.Append(),
      sparks: String = OnMaps
  )(make: Dataset[Key] => DataFrame): Unit = compare(sparks, looks) { memory =>
    val running = start(make(memory.toDS()), nameOf(mode))
    (running, () => running.query.processAllAvailable())
  }

  /** The same for a query that goes by the clock, with a batch a second. */
  protected def checkStepByClock(looks: (Running, Long) => Unit, sparks: String = OnMaps)(
      make: Dataset[Key] => DataFrame
  ): Unit = compare(sparks, looks) { memory =>
    val folder = this.folder("checkpoint").toString
    val clocked = new ClockedQuery(spark, make(memory.toDS()), OutputMode.Update(), folder)
    (new Running(clocked.query, clocked.byBatch), () => clocked.tick())
  }

  /** A test of the long run, in both checkpoint formats. */
  protected def testInBothFormats(name: String)(body: => Unit): Unit = for (format <- 1 to 2)
    test(s"$name, in checkpoint format $format.", isInShortRun = false) {
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> s"$format")(body)
    }

  protected def told(running: Running, batch: Long, column: String, stores: String): Long =
    running
      .migrationsIn(batch)
      .filter(_.get("store").asText.matches(stores))
      .map(_.get(column).asLong)
      .sum

  protected def checkBrought(running: Running, batch: Long, stores: String)(
      left: Long => Boolean
  ): Unit = {
    def all = running.migrationsIn(batch)
    assert(told(running, batch, "sub_bins", stores) > 0, s"nothing was asked for: $all")
    assert(left(told(running, batch, "bins_incomplete", stores)), s"bins incomplete: $all")
    assert(told(running, batch, "bins_from_checkpoint", stores) == 0, all)
  }

  /** Spark's own progress tells the same of a batch. */
  protected def checkProgress(running: Running, batch: Long): Unit =
    eventually(timeout(60.seconds)) {
      for ((metric, column) <- Columns) {
        val metrics = running.progressOf(batch).map(_.customMetrics.get(metric).longValue)
        assert(metrics.sum > 0 && metrics.sum == told(running, batch, column, ".*"), metric)
      }
    }

  /** What was asked for came, and something is left where it was. */
  protected def leavesSome(running: Running, batch: Long): Unit =
    checkBrought(running, batch, ".*")(_ > 0)

  /** The same; and rows were let go in the step's own batch. */
  protected def letsGo(isDue: (Running, Long) => Boolean)(running: Running, batch: Long): Unit = {
    assert(isDue(running, batch), s"nothing was due in batch $batch, in which bins moved")
    leavesSome(running, batch)
  }

  protected def letsGoAsProgressTells(running: Running, batch: Long): Unit = {
    letsGo(removes)(running, batch)
    checkProgress(running, batch)
  }

  /** Of joins here, the stores have other names. */
  protected def bringsAll(running: Running, batch: Long): Unit =
    checkBrought(running, batch, "default")(_ == 0)
}

object OnDemandSession {
  val BatchesBefore = 3
  val Batches = 16

  /** What Spark's progress and the table `migrations` both tell. */
  private val Columns = Seq(
    "megaphoneSubBins" -> "sub_bins",
    "megaphoneBinsIncomplete" -> "bins_incomplete",
    "megaphoneBytesToCome" -> "bytes_to_come"
  )

  private def nameOf(mode: OutputMode) = mode.toString.toLowerCase(java.util.Locale.ROOT)
}
