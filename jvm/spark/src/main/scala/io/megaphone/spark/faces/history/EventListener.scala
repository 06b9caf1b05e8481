// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.SparkConf
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd, SparkListenerEvent}
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryProgressEvent
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.util.kvstore.KVStore

import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.faces.events.MegaphoneEvent
import io.megaphone.spark.faces.json.Json
import io.megaphone.spark.metrics.OperatorMetrics

/** Keeps the newest event about each thing, of each run the newest things, and the newest runs. It
  * does the same live and when an event log is read.
  *
  * Batches need no event of ours: Spark reports them itself, with the plugin's metrics.
  *
  * Threads: one, that of the listener bus or of the reader of the log.
  */
final class EventListener(conf: SparkConf, store: KVStore) extends SparkListener {
  private val thingsMax = MegaphoneConf.UiRetainedBatches.read(conf.getOption)
  private val runsMax = MegaphoneConf.UiRetainedQueries.read(conf.getOption)
  private val runs = mutable.LinkedHashMap.empty[String, Run]
  private var place = 0L

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: MegaphoneEvent =>
      if (isReadable(e)) put(e.kind, e.run, keyOf(e), e.time, e.body)
    case e: QueryProgressEvent => batch(e.progress)
    case _ => ()
  }

  private def isReadable(e: MegaphoneEvent): Boolean =
    e.version <= MegaphoneEvent.Version && EventStore.Kinds(e.kind) && e.run != null &&
      e.body != null && e.body.isObject

  private def keyOf(e: MegaphoneEvent): String = if (e.key == null) "" else e.key

  /** Of a query that we were not told of nothing is kept, nor of a trigger without a batch. */
  private def batch(progress: StreamingQueryProgress): Unit = {
    val run = progress.runId.toString
    val isOurs = progress.stateOperators.exists(
      _.customMetrics.containsKey(OperatorMetrics.BinsOwned.name)
    )
    if (isOurs && runs.contains(run) && progress.durationMs.containsKey("addBatch")) {
      val body = Json.node(
        "batch" -> progress.batchId,
        "duration_ms" -> progress.durationMs.getOrDefault("triggerExecution", 0L),
        "rows" -> progress.numInputRows
      )
      put(EventStore.Batch, run, s"${progress.batchId}", System.currentTimeMillis, body)
    }
  }

  /** Nothing runs after the application, whether or not we were told that it has ended. */
  override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit =
    for (run <- runs.valuesIterator.filterNot(_.isOver).toVector)
      put(MegaphoneEvent.Ended, run.id, "", end.time, Json.node())

  private def put(kind: String, run: String, key: String, time: Long, body: JsonNode): Unit =
    // A run is known by its query.
    if (kind == MegaphoneEvent.Query || runs.contains(run)) {
      val known = runs.getOrElseUpdate(run, new Run(run))
      place += 1
      store.write(known.placed(kind, key, time, body, place))
      if (kind == MegaphoneEvent.Ended) known.isOver = true
      // The oldest run that is over; a running one stays.
      if (runs.size > runsMax)
        runs.valuesIterator.find(_.isOver).foreach { oldest =>
          oldest.clear()
          runs.remove(oldest.id)
        }
    }

  /** What is kept of a run: the ids of its rows, by kind, oldest first. */
  private final class Run(val id: String) {
    private val rows = mutable.Map.empty[String, mutable.LinkedHashMap[String, Long]]
    var isOver = false

    /** The row of a thing, in the place that it had; the oldest of its kind goes if there are too
      * many.
      */
    def placed(kind: String, key: String, time: Long, body: JsonNode, next: Long): Thing = {
      val ofKind = rows.getOrElseUpdate(kind, mutable.LinkedHashMap.empty)
      val rowId = s"$kind/$id/$key"
      val place = ofKind.getOrElseUpdate(rowId, next)
      if (ofKind.size > thingsMax) {
        val oldest = ofKind.head._1
        ofKind.remove(oldest)
        store.delete(classOf[Thing], oldest)
      }
      new Thing(rowId, id, EventStore.of(kind, id), place, time, body)
    }

    def clear(): Unit =
      for (ofKind <- rows.valuesIterator; row <- ofKind.keysIterator)
        store.delete(classOf[Thing], row)
  }
}
