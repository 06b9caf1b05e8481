// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import scala.collection.mutable

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.expressions.Window
import org.apache.spark.sql.functions._
import org.apache.spark.storage.StorageLevel

/** What a sink's function computes from a routed batch is what it computes from the same rows in a
  * DataFrame that knows nothing of how they lie.
  */
class ForeachBatchSuite extends KeyedSession {
  import ForeachBatchSuite._

  // Every join of two sides shuffles, and no adaptive step makes it a broadcast afterwards.
  override protected def settings: Map[String, String] =
    Map(
      "spark.sql.autoBroadcastJoinThreshold" -> "-1",
      // Spark 4.3 has it: rows with a null key lie anywhere.
      "spark.sql.shuffle.spreadNullJoinKeys.enabled" -> "true"
    )

  private def table: DataFrame =
    spark.range(0, 200).selectExpr("if(id = 0, null, id) as k", "id % 7 as m", "id * 2 as w")

  /** Runs a query with so many workers, moves its bins to 5 workers and back, and compares before,
    * between and after each use of a batch with the same use of its rows alone.
    *
    * Back from 5, there are as many workers as at first, but other bins at each: also where the
    * number divides that of the bins, so that at first Spark's own hash gives the same partition.
    */
  private def check(workers: Int, uses: Seq[(String, Use)])(make: DataFrame => DataFrame): Unit = {
    val wrong = mutable.LinkedHashMap.empty[String, String]
    val seen = mutable.ArrayBuffer.empty[Int]
    val source = new Source
    @volatile var isCompared = false
    withConf("spark.sql.shuffle.partitions" -> workers.toString) {
      val compare: (DataFrame, Long) => Unit = (batch, id) =>
        if (isCompared) {
          val partitions = batch.rdd.getNumPartitions
          val rows = spark.createDataFrame(batch.collectAsList(), batch.schema)
          assert(rows.count() > 0)
          seen += partitions
          def look(name: String, use: Use, at: DataFrame): Unit = {
            val ours = sorted(use(at, table, partitions).collect())
            val right = sorted(use(rows, table, partitions).collect())
            if (ours != right)
              wrong.getOrElseUpdate(
                name,
                s"batch $id, $partitions workers: ${ours.size} rows, not ${right.size}, " +
                  s"${ours.diff(right).size} of them wrong"
              )
          }
          for ((name, use) <- Seq(uses.head, uses.last)) look(s"$name, not cached", use, batch)
          val kept =
            cached(batch) // lies as the batch does, and saves its state's work for each use
          uses.foreach { case (name, use) => look(name, use, kept) }
          spark.catalog.clearCache()
        } else { batch.collect(); () }
      val query = make(source.stream).writeStream
        .outputMode("update")
        .option("checkpointLocation", folder("checkpoint").toString)
        .foreachBatch(compare)
        .start()
      val running = new Running(query, mutable.Map.empty)
      def round(): Unit = {
        source.feed()
        isCompared = true
        query.processAllAvailable()
        isCompared = false
      }
      round()
      running.rescale(5, () => source.feed(), strategy = "all-at-once")
      round()
      running.rescale(workers, () => source.feed(), strategy = "all-at-once")
      round()
      query.stop()
    }
    assert(seen.toSeq == Seq(workers, 5, workers))
    assert(
      wrong.isEmpty,
      wrong.map { case (name, what) => s"$name: $what" }.mkString("\n", "\n", "")
    )
  }

  for (workers <- Seq(3, 4))
    test(s"Joins of a batch on its key, $workers workers.", isInShortRun = workers == 3) {
      check(workers, Joins)(_.groupBy("k").count())
    }

  test("Unions, windows and aggregates of a batch.", isInShortRun = false) {
    check(3, Others)(_.groupBy("k").count())
  }

  test(
    "Joins of a batch with two keys, on both, turned, on more and on one.",
    isInShortRun = false
  ) {
    check(3, TwoKeys)(_.groupBy(col("k"), (col("k") % 7).as("m")).count())
  }

  test(
    "Joins of a batch on some of its keys, where Spark co-partitions by all keys only.",
    isInShortRun = false
  ) {
    withConf("spark.sql.requireAllClusterKeysForCoPartition" -> "false") {
      check(3, TwoKeys)(_.groupBy(col("k"), (col("k") % 7).as("m")).count())
    }
  }

  test("Joins of which Spark makes broadcasts while they run.", isInShortRun = false) {
    withConf(
      "spark.sql.adaptive.autoBroadcastJoinThreshold" -> "10m",
      "spark.sql.adaptive.coalescePartitions.parallelismFirst" -> "false"
    ) {
      check(3, Joins)(_.groupBy("k").count())
    }
  }

  test("Batches of two queries meet, whether or not their bins lie alike.") {
    def kept(seed: Int, move: Boolean): DataFrame = {
      var last: DataFrame = null
      val source = new Source(seed)
      val keep: (DataFrame, Long) => Unit = (batch, _) => {
        last = batch.persist(StorageLevel.MEMORY_ONLY)
        last.count()
        ()
      }
      val query = source.stream
        .groupBy("k")
        .count()
        .writeStream
        .outputMode("complete")
        .option("checkpointLocation", folder("checkpoint").toString)
        .foreachBatch(keep)
        .start()
      val running = new Running(query, mutable.Map.empty)
      source.feed()
      query.processAllAvailable()
      if (move) for (workers <- Seq(5, 3)) {
        running.rescale(workers, () => source.feed(), strategy = "all-at-once")
        source.feed()
        query.processAllAvailable()
      }
      query.stop()
      last
    }
    def alone(batch: DataFrame) = spark.createDataFrame(batch.collectAsList(), batch.schema)
    def uses(a: DataFrame, b: DataFrame): Seq[(String, DataFrame)] = Seq(
      "join" -> a.join(b, "k"),
      "outer" -> a.join(b, Seq("k"), "full_outer"),
      "anti" -> a.join(b, Seq("k"), "left_anti"),
      "union" -> a.union(b).groupBy("k").agg(sum("count"), count("*"))
    )
    def shuffles(of: DataFrame): Int = {
      of.collect()
      of.queryExecution.executedPlan.toString.linesIterator.count(_.contains("Exchange "))
    }
    val (first, alike, moved) = (kept(3, move = false), kept(4, move = false), kept(5, move = true))
    for (
      (name, a, b) <- Seq(
        ("alike", first, alike),
        ("moved", first, moved),
        ("turned", moved, alike)
      )
    )
      for (((use, ours), (_, right)) <- uses(a, b).zip(uses(alone(a), alone(b)))) {
        assert(sorted(ours.collect()) == sorted(right.collect()), s"$use of $name")
      }
    assert(shuffles(first.join(alike, "k")) == 1, "one side is shuffled as the other lies")
    assert(shuffles(first.join(moved, "k")) > 0)
    Seq(first, alike, moved).foreach(_.unpersist())
  }
}

object ForeachBatchSuite {

  /** Of a batch, a table and the batch's number of partitions, what a sink's function makes. */
  private type Use = (DataFrame, DataFrame, Int) => DataFrame

  private val Joins: Seq[(String, Use)] =
    Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti")
      .map(kind => s"$kind join" -> ((b, t, _) => b.join(t, Seq("k"), kind)): (String, Use)) ++
      Seq[(String, Use)](
        "join from the table" -> ((b, t, _) => t.join(b, "k")),
        "anti join from the table" -> ((b, t, _) => t.join(b, Seq("k"), "left_anti")),
        "join of hash tables" -> ((b, t, _) => b.join(t.hint("shuffle_hash"), "k")),
        "join with a table hashed before" -> ((b, t, n) => b.join(t.repartition(n, col("k")), "k")),
        "join with more partitions" -> ((b, t, n) => b.join(t.repartition(2 * n, col("k")), "k")),
        "join of the batch hashed" -> ((b, t, n) => b.repartition(n, col("k")).join(t, "k")),
        "join with a renamed key" -> ((b, t, _) =>
          b.select(col("k").as("x"), col("count"), col("k").as("y"))
            .join(t, expr("x = k and y = k"))
        ),
        "join with two tables" -> ((b, t, n) =>
          b.join(t, "k").join(t.select("k", "m").repartition(n, col("k")), "k")
        ),
        "join on another column" -> ((b, t, _) => b.join(t, expr("count = w"))),
        "join with a cached table hashed before" -> ((b, t, n) =>
          b.join(cached(t.repartition(n, col("k"))), "k")
        ),
        "joins beside each other" -> ((b, t, _) =>
          b.join(t, "k").select("k").union(t.join(b, "k").select("k")).groupBy("k").count()
        ),
        "join with itself" -> ((b, _, _) =>
          b.as("a").join(b.as("b"), expr("a.k = b.k")).selectExpr("a.k", "b.count")
        )
      )

  private val Others: Seq[(String, Use)] = Seq(
    "union" -> ((b, t, n) =>
      b.select(col("k"), col("count").as("w"))
        .union(t.select("k", "w").repartition(n, col("k")))
        .groupBy("k")
        .agg(count("*"), sum("w"))
    ),
    "union from the table" -> ((b, t, n) =>
      t.select("k", "w")
        .repartition(n, col("k"))
        .union(b.select(col("k"), col("count").as("w")))
        .groupBy("k")
        .agg(count("*"), sum("w"))
    ),
    "intersection" -> ((b, t, n) =>
      b.select("k").intersect(t.select("k").repartition(n, col("k")))
    ),
    "difference" -> ((b, t, n) => t.select("k").repartition(n, col("k")).except(b.select("k"))),
    "window" -> ((b, _, _) =>
      b.withColumn("n", row_number().over(Window.partitionBy("k").orderBy("count")))
    ),
    "distinct" -> ((b, _, _) => b.select("k").distinct()),
    "aggregate" -> ((b, _, _) => b.groupBy("k").agg(sum("count"))),
    "aggregate of all" -> ((b, _, _) => b.agg(sum("count"), count("*"))),
    "aggregate of a repartitioned batch" -> ((b, _, n) =>
      b.repartition(n, col("k")).groupBy("k").count()
    ),
    "rows of each partition" -> ((b, t, n) =>
      b.repartition(n, col("k"))
        .select(col("k"), spark_partition_id().as("p"))
        .join(
          t.repartition(n, col("k")).select(col("k"), spark_partition_id().as("q")),
          Seq("k")
        )
        .selectExpr("k", "p = q")
    ),
    "union with itself" -> ((b, _, _) => b.union(b).groupBy("k").count()),
    "window over a union" -> ((b, _, _) =>
      b.union(b).withColumn("n", row_number().over(Window.partitionBy("k").orderBy("count")))
    ),
    "distinct of a union" -> ((b, _, _) => b.union(b).select("k").distinct())
  )

  private val TwoKeys: Seq[(String, Use)] =
    for {
      kind <- Seq("inner", "full_outer", "left_anti")
      (name, on) <- Seq(
        "both keys" -> "k = x and m = y",
        "turned keys" -> "m = y and k = x",
        "more keys" -> "count = z and m = y and k = x",
        "one key" -> "k = x",
        "the other key" -> "m = y",
        "one key twice" -> "k = x and k = x2 and m = y"
      )
    } yield s"$kind on $name" -> ((b: DataFrame, t: DataFrame, _: Int) =>
      b.join(
        t.selectExpr("k as x", "k as x2", "m as y", "1L as z"),
        expr(on),
        kind
      )
    )

  private def cached(frame: DataFrame): DataFrame = {
    val kept = frame.persist(StorageLevel.MEMORY_ONLY); kept.count(); kept
  }
}
