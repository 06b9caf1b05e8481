// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, Trigger}
import org.apache.spark.util.ManualClock
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

/** A query with a batch a second, on a clock that a test advances. */
final class ClockedQuery(spark: SparkSession, df: DataFrame, mode: OutputMode, checkpoint: String) {
  private val clock = new ClockedQuery.WatchedClock

  /** What each batch gave. To be looked at under its own monitor while the query runs. */
  val byBatch: mutable.Map[Long, Seq[Row]] = mutable.LinkedHashMap.empty[Long, Seq[Row]]
  private var batchesCount = 0L

  val query: StreamingQuery = {
    val sink = new ForeachBatchSink[Row](
      (batch, id) => { val all = batch.collect().toSeq; byBatch.synchronized(byBatch(id) = all) },
      encoder
    )
    val trigger = Trigger.ProcessingTime(1000)
    spark.streams.startQuery(
      None,
      None,
      Some(checkpoint),
      df.asInstanceOf[Dataset[Row]],
      Map.empty,
      sink,
      mode,
      trigger = trigger,
      triggerClock = clock
    )
  }

  until(clock.isWaiting) // what is fed from now on is for the first tick

  /** Lets a second go by, and the batch that begins then come to its end. */
  def tick(): Unit = {
    clock.advance(1000)
    batchesCount += 1
    /* Progress would not do: a query tells of some, of the batch to come, before it has anything to
     * do. */
    until(byBatch.synchronized(byBatch.contains(batchesCount - 1)) && clock.isWaiting)
  }

  private def until(isSo: => Boolean): Unit = eventually(timeout(120.seconds)) {
    query.exception.foreach(throw _); assert(isSo, query.status)
  }

  private def encoder = df.asInstanceOf[Dataset[Row]].exprEnc
}

private object ClockedQuery {

  /** Knows whether the query waits for it: then no batch is under way. */
  final class WatchedClock extends ManualClock(0) {
    @volatile var isWaiting = false

    override def waitTillTime(target: Long): Long = {
      isWaiting = true
      try super.waitTillTime(target)
      finally isWaiting = false
    }
  }
}
