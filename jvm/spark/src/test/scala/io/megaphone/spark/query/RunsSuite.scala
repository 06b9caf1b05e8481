// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import java.nio.file.Files

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.format.ExecutorAddress
import io.megaphone.runtime.{Held, Orders, Report}
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.driver.{ApplicationDriver, QueryDriver}
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.rule.GroupExec
import io.megaphone.spark.wire.MessageBytes

/** What surrounds a routed query stays as Spark has it: its runs, its triggers, its explanations,
  * and batch queries beside it.
  */
class RunsSuite extends KeyedSession {

  test(
    "`explain` of a stream and of a running query leaves the query alone, and routes nothing " +
      "itself."
  ) {
    val source = new Source
    val counts = source.stream.groupBy("k").count()
    def explained(body: => Unit) = {
      val out = new java.io.ByteArrayOutputStream; Console.withOut(out)(body); out.toString
    }
    val before = explained(counts.explain())
    assert(before.contains("StateStoreSave") && !before.contains("megaphone("))
    val running = start(counts, "complete")
    source.feed()
    running.query.processAllAvailable()
    val during = explained(counts.explain(true))
    assert(during.contains("StateStoreSave") && !during.contains("megaphone("))
    val own = explained(running.query.explain())
    assert(own.contains("MegaphoneGroup") && own.contains("megaphone(") && own.length < 5000, own)
    source.feed()
    running.query.processAllAvailable()
    assert(running.plans.isEmpty)
    assert(sorted(running.last) == sorted(source.batch.groupBy("k").count().collect()))
  }

  for (mode <- Seq("direct", "prepared"))
    test(s"Nothing is published for moves within one executor, in mode $mode.") {
      val source = new Source
      var published = Seq.empty[Int]
      val running = start(
        source.stream.groupBy("k").count(),
        "complete",
        rowsOf = rowsAnd(() => published :+= ExecutorHost.active.get.agent.peers.publishedCount)
      )
      source.feed()
      running.query.processAllAvailable()
      running.rescale(5, () => source.feed(), mode)
      assert(published.size > 2 && published.forall(_ == 0), published)
      assert(sorted(running.last) == sorted(source.batch.groupBy("k").count().collect()))
    }

  test("A batch query is planned as ever, with the plugin on, also while a stream runs.") {
    val source = new Source
    val running = start(source.stream.groupBy("k").count(), "complete")
    source.feed()
    running.query.processAllAvailable()
    val batch = source.batch.groupBy("k").count()
    batch.collect()
    assert(batch.queryExecution.executedPlan.collect { case g: GroupExec => g }.isEmpty)
    assert(!batch.queryExecution.toString.contains("megaphone("))
  }

  test(
    "A checkpoint keeps its bins, tables and workers, whatever the session's configuration says " +
      "by then."
  ) {
    val checkpoint = folder("checkpoint")
    val source = new Source
    val counts = source.stream.groupBy("k").count()
    withConf("spark.megaphone.bins" -> "16") {
      val first = start(counts, "complete", checkpoint.toString)
      source.feed()
      first.query.processAllAvailable()
      first.rescale(5, () => source.feed())
      first.stop()
    }
    withConf("spark.megaphone.bins" -> "64", "spark.sql.shuffle.partitions" -> "7") {
      var second: Running = null
      val warnings = logged(classOf[QueryDriver]) {
        second = start(counts, "complete", checkpoint.toString)
        source.feed()
        second.query.processAllAvailable()
      }
      assert(
        warnings == Seq(
          s"The checkpoint of query ${second.query.runId} has 16 bins and keeps them; the " +
            "configured number of bins, 64, is for new queries."
        )
      )
      assert(second.workers == Seq(5))
      assert(second.plan.collect { case g: GroupExec => g.tables.value.after.bins } == Seq(16))
      second.rescale(2, () => source.feed())
      assert(sorted(second.last) == sorted(source.batch.groupBy("k").count().collect()))
    }
  }

  test("An executor is told the deadline for images that the query was started with.") {
    val source = new Source
    val running = withConf(MegaphoneConf.ImageDeadlineMs.key -> "1234") {
      start(source.stream.groupBy("k").count(), "complete")
    }
    source.feed()
    running.query.processAllAvailable()
    val report =
      Report(ExecutorAddress("9", "host", 1), Held(0, 0, 0))
    val answer = ApplicationDriver.active.get.receive(MessageBytes.encode(report))
    MessageBytes.decode(answer) match {
      case orders: Orders =>
        assert(orders.runs(running.query.runId.toString).pullDeadlineMs.contains(1234L))
      case other => fail(other.toString)
    }
  }

  test("The records of the plan log that a newer one stands for are deleted.") {
    val source = new Source
    val counts = source.stream.groupBy("k").count()
    val checkpoint = folder("checkpoint")
    val running = start(counts, "complete", checkpoint.toString)
    def round(of: Running): Unit = { source.feed(); of.query.processAllAvailable() }
    def records: Long = {
      val all = Files.list(checkpoint.resolve("megaphone/log"))
      try all.filter(_.getFileName.toString.forall(_.isDigit)).count()
      finally all.close()
    }
    round(running)
    val run = running.query.runId.toString
    for (_ <- 1 to 50) {
      MegaphoneApi.rescale(run, 5, null, "direct", -1)
      MegaphoneApi.cancel(run, running.plans.last.get("id").asText)
    }
    assert(records == 101)
    round(running)
    eventually(timeout(60.seconds))(assert(records == 1))
    running.rescale(5, () => source.feed())
    running.stop()
    val again = start(counts, "complete", checkpoint.toString)
    round(again)
    assert(again.workers == Seq(5))
    assert(sorted(again.last) == sorted(source.batch.groupBy("k").count().collect()))
  }

  test("Batches without data, which only the watermark makes, are routed too.") {
    val source = new Source
    def make(rows: DataFrame) =
      rows
        .withColumn("t", timestamp_seconds(col("v") * 10))
        .withWatermark("t", "100 seconds")
        .groupBy(window(col("t"), "200 seconds"), col("k"))
        .count()
    val running = start(make(source.stream), "append")
    source.feed()
    running.query.processAllAvailable()
    assert(running.batches.size == 2, "a batch of data, and one for the watermark")
    running.rescale(5, () => source.feed())
    running.rescale(2, () => source.feed())
    assert(running.workers == Seq(2))
    // All windows that the last watermark closed, each once.
    val closed = running.query.lastProgress.eventTime.get("watermark")
    val expected = make(source.batch).where(col("window.end") <= lit(closed).cast("timestamp"))
    assert(running.all.nonEmpty)
    assert(sorted(running.all) == sorted(expected.collect()))
  }

  test(
    "`AvailableNow`, run again and again, with a plan that one run begins and a later one ends."
  ) {
    val input = folder("input")
    val checkpoint = folder("checkpoint")
    val rows = spark.readStream
      .schema("k LONG, v LONG")
      .option("maxFilesPerTrigger", "1")
      .csv(input.toString)
    var files = 0
    def write(): Unit = {
      val text = (0 until 50).map(i => s"${(files * 31 + i * 7) % 90},$i").mkString("\n")
      Files.writeString(input.resolve(f"$files%03d.csv"), text)
      files += 1
    }
    def run(inBatch: () => Unit = () => ()): Running = {
      write()
      write()
      val running = start(
        rows.groupBy("k").count(),
        "complete",
        checkpoint.toString,
        Trigger.AvailableNow(),
        rowsAnd(inBatch)
      )
      running.query.awaitTermination()
      running
    }
    run()
    /* A plan needs a running query: it is submitted within a batch, and has more steps than that
     * run has batches. */
    var plan = Option.empty[String]
    run { () =>
      if (plan.isEmpty)
        plan = Some(
          MegaphoneApi
            .rescale(spark.streams.active.head.runId.toString, 5, "batched(200)", "direct", -1)
        )
    }
    assert(plan.exists(_.contains("\"steps\":")), plan)
    val seen = Seq.fill(8)(run()).map(_.workers)
    assert(seen.last == Seq(5), seen)
    val last = run().last
    assert(
      sorted(last) == sorted(
        spark.read.schema("k LONG, v LONG").csv(input.toString).groupBy("k").count().collect()
      )
    )
  }
}
