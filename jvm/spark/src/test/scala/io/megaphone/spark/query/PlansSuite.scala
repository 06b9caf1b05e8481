// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Encoders, Row}
import org.apache.spark.sql.execution.{GlobalLimitExec, SparkPlan}
import org.apache.spark.sql.execution.exchange.{BroadcastExchangeExec, ShuffleExchangeExec}
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, SortMergeJoinExec}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._

import io.megaphone.errors.PlanRefusedException
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.partitioning.RoutedPartitioning
import io.megaphone.spark.rule.GroupExec

/** A query of any shape gives, rescaled up and down in the middle, what a batch query gives over
  * the same input.
  */
class PlansSuite extends KeyedSession {

  /** Runs a query over three batches, then up to 5 workers, then down to 2, and compares all that
    * it gave with the batch query.
    */
  private def check(
      mode: String,
      transfer: String = "direct",
      result: Running => Iterable[Row] = _.last
  )(
      make: DataFrame => DataFrame
  )(looks: Running => Unit): Unit = {
    val source = new Source
    val running = start(make(source.stream), mode)
    def round(): Unit = { source.feed(); running.query.processAllAvailable() }
    round()
    round()
    assert(running.workers.toSet == Set(3L))
    running.rescale(5, () => source.feed(), transfer)
    round()
    assert(running.workers.toSet == Set(5L))
    looks(running)
    running.rescale(2, () => source.feed(), transfer)
    round()
    assert(running.workers.toSet == Set(2L))
    looks(running)
    assert(sorted(result(running)) == sorted(make(source.batch).collect()))
    running.stop()
  }

  private def assertNotMovable(running: Running, workers: Int): Unit = {
    val refused = intercept[PlanRefusedException](
      MegaphoneApi.rescale(running.query.runId.toString, workers, null, null, -1)
    )
    assert(refused.condition == "NOT_MOVABLE")
  }

  private def nodes(running: Running)(of: PartialFunction[SparkPlan, Unit]): Int =
    running.plan.collect(of).size

  /** The snapshots that Spark reports of, by worker and store; checks that they are of the newest
    * version.
    */
  private def snapshots(running: Running): Map[String, Long] = {
    val progress = running.query.lastProgress
    val found = progress.stateOperators.head.customMetrics.asScala.collect {
      case (s"SnapshotLastUploaded.$of", version) => of -> version.toLong
    }.toMap
    assert(found.values.toSet == Set(progress.batchId + 1))
    found
  }

  /** Each row of the stream beside those of the same key that came before it. */
  private def pairs(rows: DataFrame): DataFrame =
    rows
      .select(col("k").as("a"), col("v"))
      .join(rows.select(col("k").as("b"), col("v").as("w")), expr("a = b and w < v"))

  for (transfer <- Seq("direct", "prepared"))
    test(s"An aggregate, rescaled in mode $transfer.") {
      check("complete", transfer)(_.groupBy("k").agg(count("*"), sum("v"), max("v"))) { running =>
        assert(
          snapshots(running).keySet == running.workers
            .flatMap(0L until _)
            .map(w => s"partition_${w}_default")
            .toSet
        )
        assert(running.tables.size == 1)
        assert(nodes(running) { case _: GroupExec => () } == 1)
      }
    }

  test("Deduplicated rows, whose first of a key is the one that is kept.") {
    check("append", result = _.all.map(r => Row(r.get(0))))(_.select("k").dropDuplicates("k"))(_ =>
      ()
    )
  }

  test(
    "A deduplication and an aggregate on the same key share one exchange, one group and one table."
  ) {
    check("complete")(_.dropDuplicates("k", "v").groupBy("k", "v").count()) { running =>
      assert(running.workers.size == 2)
      assert(nodes(running) {
        case e: ShuffleExchangeExec if e.outputPartitioning.isInstanceOf[RoutedPartitioning] => ()
      } == 1)
      assert(nodes(running) { case _: GroupExec => () } == 1)
    }
  }

  test("A deduplication and an aggregate on other keys are two groups with an exchange between.") {
    check("complete")(_.dropDuplicates("k", "v").groupBy(col("v") % 7).count()) { running =>
      assert(nodes(running) {
        case e: ShuffleExchangeExec if e.outputPartitioning.isInstanceOf[RoutedPartitioning] => ()
      } == 2)
      assert(nodes(running) { case _: GroupExec => () } == 2)
    }
  }

  test("One group of two is rescaled, the other stays.") {
    val source = new Source
    def make(rows: DataFrame) = rows.dropDuplicates("k", "v").groupBy(col("v") % 7).count()
    val running = start(make(source.stream), "complete")
    source.feed()
    running.query.processAllAvailable()
    val operators = running.plan.collect { case g: GroupExec =>
      g.assignment.operators.map(_.id)
    }.flatten
    assert(operators.toSet == Set(0L, 1L))
    running.rescale(6, () => source.feed(), operator = 1)
    source.feed()
    running.query.processAllAvailable()
    assert(running.workers.sorted == Seq(3, 6))
    assert(sorted(running.last) == sorted(make(source.batch).collect()))
  }

  for ((format, transfer) <- Seq(1 -> "direct", 2 -> "prepared"))
    test(
      s"A join of two streams in its state format $format: both sides are routed alike, and " +
        "every store of both moves.",
      isInShortRun = format == 2
    ) {
      withConf("spark.sql.streaming.join.stateFormatVersion" -> format.toString) {
        check("append", transfer, _.all)(pairs) { running =>
          assert(running.plan.collect { case j: StreamingSymmetricHashJoinExec =>
            j.stateFormatVersion
          } == Seq(format))
          assert(
            snapshots(running).size == 5,
            "as many as Spark reports of, of four stores a worker"
          )
          assert(running.tables.size == 1)
          assert(nodes(running) { case _: GroupExec => () } == 1)
        }
      }
    }

  test(
    "Sessions, which are asked for by the key that they have in common, and merge across moves."
  ) {
    check("complete", "prepared") { rows =>
      rows
        .groupBy(session_window(timestamp_seconds(col("v")), "7 seconds"), col("k"))
        .agg(count("*"), sum("v"))
    }(running => assert(running.tables.size == 1))
  }

  test(
    "A union of two deduplicated branches, grouped again on the key, is one group of three " +
      "operators."
  ) {
    val left = new Source(5)
    val right = new Source(6)
    def make(l: DataFrame, r: DataFrame) = l
      .select("k")
      .dropDuplicates("k")
      .union(r.select("k").dropDuplicates("k"))
      .groupBy("k")
      .count()
    def feed(): Unit = { left.feed(); right.feed() }
    val running = start(make(left.stream, right.stream), "complete")
    feed()
    running.query.processAllAvailable()
    Seq(5, 2).foreach { workers =>
      running.rescale(workers, () => feed())
      feed()
      running.query.processAllAvailable()
      assert(running.workers == Seq.fill(3)(workers.toLong))
      assert(running.tables.size == 1)
    }
    assert(sorted(running.last) == sorted(make(left.batch, right.batch).collect()))
  }

  test(
    "A union that meets state and a shuffle of the user's, grouped without state: both sides are " +
      "routed alike."
  ) {
    val left = new Source(5)
    val right = new Source(6)
    val s = spark
    import s.implicits._
    def keys(rows: DataFrame) = rows.select(coalesce(col("k"), lit(-1L)).as("k"))
    val meeting = keys(left.stream)
      .dropDuplicates("k")
      .union(keys(right.stream).repartition(3, col("k")))
      .as[Long]
    val running = start(
      meeting.groupByKey(identity).mapGroups((k, values) => (k, values.size.toLong)).toDF(),
      "append"
    )
    def round(): Unit = { left.feed(); right.feed(); running.query.processAllAvailable() }
    round()
    running.rescale(5, () => { left.feed(); right.feed() })
    round()
    running.byBatch.foreach { case (batch, rows) =>
      assert(
        rows.map(_.getLong(0)).distinct.size == rows.size,
        s"a key of batch $batch was grouped in two places"
      )
    }
  }

  test(
    "An aggregate joined by sort and merge with a static side on the grouping key: both sides " +
      "are routed alike."
  ) {
    val side = spark.range(0, 120).selectExpr("id as k", "id * 10 as name")
    withConf("spark.sql.autoBroadcastJoinThreshold" -> "-1") {
      check("complete")(_.groupBy("k").count().join(side.hint("merge"), "k")) { running =>
        assert(nodes(running) { case _: SortMergeJoinExec => () } == 1)
        assert(nodes(running) {
          case e: ShuffleExchangeExec if e.outputPartitioning.isInstanceOf[RoutedPartitioning] => ()
        } == 2)
        assert(running.tables.size == 1)
      }
    }
  }

  test("An aggregate with a null key, outer joined with a static side that has null keys.") {
    val key = "if(k < 4, null, k)"
    val side = spark.range(0, 120).selectExpr("if(id % 9 = 0, null, id) as k", "id * 10 as name")
    withConf(
      "spark.sql.autoBroadcastJoinThreshold" -> "-1",
      "spark.sql.shuffle.spreadNullJoinKeys.enabled" -> "true" // Spark 4.3 has it
    ) {
      for (how <- Seq("left_outer", "left_anti"))
        check("complete")(
          _.selectExpr(s"$key as k").groupBy("k").count().join(side.hint("merge"), Seq("k"), how)
        ) { running =>
          assert(nodes(running) { case _: SortMergeJoinExec => () } == 1)
          assert(running.tables.size == 1)
        }
    }
  }

  test("A sort-merge join with a static side below the aggregate, on the grouping key.") {
    val side = spark.range(0, 120).selectExpr("id as k", "id * 10 as name")
    withConf("spark.sql.autoBroadcastJoinThreshold" -> "-1") {
      check("complete")(_.join(side.hint("merge"), "k").groupBy("k").agg(sum("name"))) { running =>
        assert(nodes(running) { case _: SortMergeJoinExec => () } == 1)
        assert(nodes(running) {
          case e: ShuffleExchangeExec if e.outputPartitioning.isInstanceOf[RoutedPartitioning] => ()
        } == 2)
      }
    }
  }

  test(
    "An aggregate joined with a static side that is broadcast: the broadcast is nobody's boundary."
  ) {
    val side = spark.range(0, 120).selectExpr("id as k", "id * 10 as name")
    check("complete")(_.groupBy("k").count().join(broadcast(side), "k")) { running =>
      assert(nodes(running) { case _: BroadcastHashJoinExec => () } == 1)
      assert(nodes(running) { case _: BroadcastExchangeExec => () } == 1)
    }
  }

  test("A static side that is itself an aggregate with its own exchange is routed with the rest.") {
    val side = spark.range(0, 600).selectExpr("id % 120 as k").groupBy("k").agg(count("*").as("n"))
    withConf(
      "spark.sql.autoBroadcastJoinThreshold" -> "-1",
      "spark.sql.adaptive.enabled" -> "false"
    ) {
      check("complete")(_.groupBy("k").count().join(side.hint("merge"), "k"))(_ => ())
    }
  }

  test(
    "A user's repartition on the key and in the number of the state's partitions is the boundary."
  ) {
    check("complete")(_.repartition(3, col("k")).groupBy("k").count())(r =>
      assert(r.tables.size == 1)
    )
  }

  test("A user's repartition into another number stays as it is, below the boundary.") {
    check("complete")(_.repartition(4, col("k")).groupBy("k").count()) { running =>
      assert(nodes(running) {
        case e: ShuffleExchangeExec if e.outputPartitioning.isInstanceOf[RoutedPartitioning] => ()
      } == 1)
    }
  }

  test("A user's coalesce stays as it is, below the boundary.") {
    check("complete")(_.coalesce(2).groupBy("k").count())(r => assert(r.tables.size == 1))
  }

  test("A user's repartition above the aggregate is no one's boundary.") {
    check("complete")(_.groupBy("k").count().repartition(4, col("count")))(r =>
      assert(r.tables.size == 1)
    )
  }

  test(
    "A global aggregate keeps to its one partition, and a rescale of it is refused with a sentence."
  ) {
    val source = new Source
    val running = start(source.stream.agg(count("*"), sum("v")), "complete")
    source.feed()
    running.query.processAllAvailable()
    assertNotMovable(running, 4)
    source.feed()
    running.query.processAllAvailable()
    assert(sorted(running.last) == sorted(source.batch.agg(count("*"), sum("v")).collect()))
  }

  test(
    "A single shuffle partition that is hashed can be rescaled; one without an exchange cannot."
  ) {
    withConf("spark.sql.shuffle.partitions" -> "1") {
      val source = new Source
      val running = start(source.stream.groupBy("k").count(), "complete")
      source.feed()
      running.query.processAllAvailable()
      assert(running.workers == Seq(1))
      if (running.tables.nonEmpty) running.rescale(3, () => source.feed())
      else assertNotMovable(running, 3)
      assert(sorted(running.last) == sorted(source.batch.groupBy("k").count().collect()))

      val coalesced = new Source
      val single = start(coalesced.stream.coalesce(1).groupBy("k").count(), "complete")
      coalesced.feed()
      single.query.processAllAvailable()
      assertNotMovable(single, 3)
      assert(sorted(single.last) == sorted(coalesced.batch.groupBy("k").count().collect()))
    }
  }

  test("A single shuffle partition that a node above relies on cannot be rescaled.") {
    def limited(rows: DataFrame): DataFrame =
      rows.groupBy("k").count().limit(1000).filter("count > 0")
    withConf("spark.sql.shuffle.partitions" -> "1") {
      val source = new Source
      val running = start(limited(source.stream), "complete")
      source.feed()
      running.query.processAllAvailable()
      assert(nodes(running) { case _: GlobalLimitExec => () } == 1)
      assertNotMovable(running, 3)
      source.feed()
      running.query.processAllAvailable()
      assert(sorted(running.last) == sorted(limited(source.batch).collect()))
    }
  }

  test(
    "A cached side of a sort-merge join, partitioned as the state is, is refused with a sentence."
  ) {
    val side =
      spark.range(0, 120).selectExpr("id as k", "id * 10 as name").repartition(3, col("k")).cache()
    side.count()
    try
      withConf("spark.sql.autoBroadcastJoinThreshold" -> "-1") {
        val source = new Source
        val running =
          start(source.stream.groupBy("k").count().join(side.hint("merge"), "k"), "complete")
        source.feed()
        val error = intercept[StreamingQueryException](running.query.processAllAvailable())
        assert(
          messagesOf(error).contains("is partitioned without an exchange of its own"),
          messagesOf(error)
        )
        assert(messagesOf(error).contains("drop the cache or the bucketing"))
      }
    finally { side.unpersist(); () }
  }

  test("A cached side of a broadcast join is nobody's business.") {
    val side =
      spark.range(0, 120).selectExpr("id as k", "id * 10 as name").repartition(3, col("k")).cache()
    side.count()
    try check("complete")(_.groupBy("k").count().join(broadcast(side), "k"))(_ => ())
    finally { side.unpersist(); () }
  }

  test("Real-time mode is refused with a sentence when the query starts.") {
    val brief = Seq("minBatchDuration" -> "1s", "allowlistCheck" -> "false").map {
      case (key, value) => s"spark.sql.streaming.realTimeMode.$key" -> value
    }
    withConf(brief: _*) {
      val source = LowLatencyMemoryStream[Int](spark, 1)(Encoders.scalaInt)
      val counts = source.toDF().groupBy("value").count()
      val writer = counts.writeStream
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", folder("checkpoint").toString)
      source.addData(1, 2, 3)
      intercept[Exception](
        writer.trigger(Trigger.RealTime(1000)).start().awaitTermination()
      ) match {
        case failed: StreamingQueryException =>
          assert(
            messagesOf(failed).contains(
              "Real-time mode, whose batches write their offsets only at their end, does not run"
            ),
            messagesOf(failed)
          )
        case refused => // since Spark 4.3 by itself, before the query starts
          assert(
            refused.getMessage.contains("spark.sql.streaming.stateStore.providerClass must"),
            refused.getMessage
          )
      }
    }
  }
}
