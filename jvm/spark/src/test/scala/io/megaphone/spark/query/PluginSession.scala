// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import java.nio.file.{Files, Path}

import scala.collection.mutable

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property
import org.apache.spark.SparkConf
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.streaming.{
  DataStreamWriter, StateOperatorProgress, StreamingQuery, Trigger
}
import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach}
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.megaphone.MegaphonePlugin
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.partitioning.RoutedPartitioning
import io.megaphone.testkit.LongRun

/** A local session with the plugin, as a user sets it up, and what the tests of whole queries have
  * in common.
  */
abstract class PluginSession extends AnyFunSuite with BeforeAndAfterAll with BeforeAndAfterEach {
  private var session: SparkSession = _
  private val folders = mutable.ArrayBuffer.empty[Path]
  private val json = new ObjectMapper

  /** What a suite sets beside the plugin. */
  protected def settings: Map[String, String] = Map.empty

  protected lazy val spark: SparkSession = session

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    clearSessions()
    val conf = new SparkConf()
      .setMaster("local[2]")
      .setAppName(suiteName)
      .set("spark.plugins", classOf[MegaphonePlugin].getName)
      .set("spark.sql.shuffle.partitions", "3")
      .set("spark.sql.warehouse.dir", folder("warehouse").toString)
    settings.foreach { case (key, value) => conf.set(key, value) }
    session = SparkSession.builder().config(conf).getOrCreate()
  }

  override protected def afterAll(): Unit = {
    if (session != null) session.stop()
    clearSessions()
    folders.foreach(delete)
    super.afterAll()
  }

  override protected def afterEach(): Unit = {
    session.streams.active.foreach(_.stop())
    super.afterEach()
  }

  /** Whether all tests are asked for, those too that take long. */
  protected def isLongRun: Boolean = LongRun.isOn

  /** A test that runs always, or, being one of many alike, in the long run only. */
  protected def test(name: String, isInShortRun: Boolean)(body: => Any): Unit =
    if (isInShortRun || isLongRun) test(name)(body)

  /** A new folder, removed at the end. */
  protected def folder(name: String): Path = {
    val made = Files.createTempDirectory(s"megaphone-$name"); folders += made; made
  }

  protected def withConf[A](settings: (String, String)*)(body: => A): A = {
    val before = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally
      before.foreach { case (key, value) =>
        value.fold(spark.conf.unset(key))(spark.conf.set(key, _))
      }
  }

  /** Starts a query whose batches are kept by number, as `rowsOf` gets their rows. */
  protected def start(
      query: DataFrame,
      mode: String,
      checkpoint: String = folder("checkpoint").toString,
      trigger: Trigger = Trigger.ProcessingTime(0),
      rowsOf: DataFrame => Seq[Row] = _.collect().toSeq
  ): Running = {
    val rows = mutable.LinkedHashMap.empty[Long, Seq[Row]]
    val keep: (DataFrame, Long) => Unit = (batch, id) => {
      val all = rowsOf(batch); rows.synchronized(rows(id) = all)
    }
    val writer: DataStreamWriter[Row] =
      query.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).trigger(trigger)
    new Running(writer.foreachBatch(keep).start(), rows)
  }

  /** Gets the rows of a batch, and then does something within it. */
  protected def rowsAnd(work: () => Unit): DataFrame => Seq[Row] = { batch =>
    val rows = batch.collect().toSeq
    work()
    rows
  }

  /** What a class logs at WARN, or at another level, or above while `body` runs. */
  protected def logged(logger: Class[_], level: Level = Level.WARN)(body: => Unit): Seq[String] = {
    val told = mutable.ArrayBuffer.empty[String]
    val appender = new AbstractAppender("warnings", null, null, true, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit =
        if (event.getLevel.isMoreSpecificThan(level)) told.synchronized {
          told += event.getMessage.getFormattedMessage; ()
        }
    }
    appender.start()
    val target = LogManager.getLogger(logger).asInstanceOf[Logger]
    target.addAppender(appender)
    target.setLevel(level)
    try body
    finally { target.setLevel(null); target.removeAppender(appender) }
    told.synchronized(told.toSeq)
  }

  protected def sorted(rows: Iterable[Row]): Seq[String] = rows.map(_.toString).toSeq.sorted

  /** The message of the error that ends a query, and those of its causes. */
  protected def messagesOf(error: Throwable): String =
    Iterator
      .iterate[Throwable](error)(_.getCause)
      .takeWhile(_ != null)
      .map(_.getMessage)
      .mkString("\n")

  /** A running query, and what it gave. */
  protected final class Running(val query: StreamingQuery, rows: mutable.Map[Long, Seq[Row]]) {
    private def runId = query.runId.toString

    def last: Seq[Row] = rows.synchronized(rows.maxBy(_._1)._2)
    def all: Seq[Row] = byBatch.flatMap(_._2)
    def byBatch: Seq[(Long, Seq[Row])] = rows.synchronized(rows.toSeq.sortBy(_._1))
    def batches: Seq[Long] = byBatch.map(_._1)

    /** The state partitions of each operator in the last batch. */
    def workers: Seq[Long] = query.lastProgress.stateOperators.toSeq.map(_.numShufflePartitions)

    /** Spark's plan of the last batch. */
    def plan: SparkPlan =
      query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution.executedPlan

    def tables: Set[String] = plan
      .collect { case p => p.outputPartitioning }
      .collect { case r: RoutedPartitioning => r.table.toString }
      .toSet

    /** Submits a plan, and feeds batches until it is done: of a few steps, unless another strategy
      * is named.
      */
    def rescale(
        workers: Int,
        feed: () => Unit,
        mode: String = "direct",
        operator: Long = -1,
        strategy: String = "batched(200)"
    ): Unit =
      rescaleBy(workers, mode, operator, strategy) { feed(); query.processAllAvailable() }

    /** Submits a plan, and makes batches until it is done. */
    def rescaleBy(workers: Int, mode: String, operator: Long = -1, strategy: String = null)(
        batch: => Unit
    ): Unit =
      rescaleUntil(_.get("status").asText == "done", workers, mode, operator, strategy)(batch)

    /** The same, until all its steps have taken effect: bins may be incomplete then. */
    def rescaleInto(workers: Int, mode: String, strategy: String)(batch: => Unit): Unit =
      rescaleUntil(
        plan => plan.get("moves_done").asInt == plan.get("moves").asInt,
        workers,
        mode,
        operator = -1,
        strategy
      )(batch)

    private def rescaleUntil(
        isSo: JsonNode => Boolean,
        workers: Int,
        mode: String,
        operator: Long,
        strategy: String
    )(batch: => Unit): Unit = {
      val id = json
        .readTree(MegaphoneApi.rescale(runId, workers, strategy, mode, operator))
        .get("id")
        .asText
      def plan = json.readTree(MegaphoneApi.plan(runId, id))
      var batches = 0
      while (!isSo(plan)) {
        assert(batches < 60, s"After $batches batches the plan is still $plan.")
        batch
        batches += 1
      }
    }

    def plans: Seq[JsonNode] = rowsOf(MegaphoneApi.plans(runId))

    /** What the table `migrations` has of a batch, worker by worker. */
    def migrationsIn(batch: Long): Seq[JsonNode] =
      rowsOf(MegaphoneApi.migrations(runId)).filter(_.get("batch").asLong == batch)

    private def rowsOf(table: String): Seq[JsonNode] = {
      val all = json.readTree(table); (0 until all.size).map(all.get)
    }

    /** The batches in which the newest plan's steps took effect. */
    def movedIn: Seq[Long] = {
      val all = plans.last.get("batches"); (0 until all.size).map(all.get(_).asLong)
    }

    /** What an operator told of a batch, one operator after the other. */
    def progressOf(batch: Long): Seq[StateOperatorProgress] =
      query.recentProgress.toSeq.filter(_.batchId == batch).flatMap(_.stateOperators)

    /** Keys by worker of the newest table. */
    def keys: Map[Int, Long] = rowsOf(MegaphoneApi.workers(runId))
      .map(w => w.get("worker").asInt -> w.get("keys").asLong)
      .toMap

    def stop(): Unit = query.stop()
  }

  private def clearSessions(): Unit = {
    org.apache.spark.sql.SparkSession.clearActiveSession()
    org.apache.spark.sql.SparkSession.clearDefaultSession()
  }

  /** A task of a context that was stopped may go on for a moment, and write. */
  private def delete(path: Path): Unit = eventually(timeout(60.seconds)) {
    if (Files.exists(path)) {
      val files = Files.walk(path)
      try
        files
          .sorted(java.util.Comparator.reverseOrder[Path]())
          .forEach(file => { Files.deleteIfExists(file); () })
      finally files.close()
    }
  }
}
