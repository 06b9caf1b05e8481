// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import org.apache.spark.sql.{DataFrame, Encoder, Encoders, Row}
import org.apache.spark.sql.functions._

import io.megaphone.spark.executor.ExecutorHost

/** A query whose state is ten times what may be kept in memory: it runs, moves and is recovered. */
final class MemorySuite extends PluginSession {
  private val budgetBytes = 1 << 20

  override protected def settings: Map[String, String] =
    Map("spark.megaphone.memory.budget" -> "1m", "spark.megaphone.bins" -> "32")

  private implicit val encoder: Encoder[(Long, Long)] = Encoders.product[(Long, Long)]

  private def answer(rows: DataFrame): DataFrame = rows
    .toDF("k", "v")
    .groupBy("k")
    .agg(count("*"), sum("v"), max(repeat(col("v").cast("string"), 24)))

  private def newestByKey(batches: Seq[Seq[Row]]): Seq[Row] =
    batches
      .foldLeft(Map.empty[Long, Row])((rows, batch) => rows ++ batch.map(r => r.getLong(0) -> r))
      .values
      .toSeq

  test("Ten times the budget.", isInShortRun = false) {
    val fed = new FedStream[(Long, Long)](spark)
    def feed(keys: Range): Unit =
      fed.feed(keys.map(k => (k.toLong * 7919, fed.count.toLong + 100000L + k)))
    val checkpoint = folder("checkpoint").toString
    def progress(running: Running) = running.query.lastProgress.stateOperators.head

    val first = start(answer(fed.stream.toDF()), "update", checkpoint)
    for (part <- 0 until 6) {
      feed(part * 12500 until (part + 1) * 12500); first.query.processAllAvailable()
    }
    val (inMemory, onDisk) = (
      progress(first).memoryUsedBytes,
      progress(first).customMetrics.get("megaphoneBytesOnDisk").longValue
    )
    assert(inMemory + onDisk > 10L * budgetBytes, s"$inMemory bytes in memory, $onDisk on disk")
    // The indexes stay in memory, and the small and the open pages of the bins.
    assert(inMemory < 4L * budgetBytes, s"$inMemory bytes in memory, $onDisk on disk")
    first.rescale(5, () => feed(1000 until 5000), "prepared", strategy = "all-at-once")
    first.rescale(2, () => feed(70000 until 75000), "direct", strategy = "all-at-once")
    assert(
      sorted(newestByKey(first.byBatch.map(_._2))) == sorted(
        answer(fed.batch.toDF()).collect()
      )
    )
    first.stop()

    val second = start(answer(fed.stream.toDF()), "update", checkpoint)
    feed(0 until 75000 by 11)
    second.query.processAllAvailable()
    assert(progress(second).memoryUsedBytes < 4L * budgetBytes)
    assert(
      sorted(newestByKey((first.byBatch ++ second.byBatch).map(_._2))) == sorted(
        answer(fed.batch.toDF()).collect()
      )
    )
    val read = spark.read.format("statestore").load(checkpoint).selectExpr("key.k", "value.*")
    assert(read.count() == 75000)
    assert(ExecutorHost.active.exists(_.budget.bytesOnDisk > 0))
  }
}
