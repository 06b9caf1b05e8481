// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.IOException
import java.util.concurrent.{Callable, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Encoder, Encoders}

import io.megaphone.checkpoint.planlog.LogRecord.Cancelled
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{FileName, StateName}
import io.megaphone.spark.driver.QueryDriver
import io.megaphone.spark.query.{FedStream, PluginSession}

/** A checkpoint in an object store: what is atomic there, and how many requests it takes. */
final class ObjectStoreSuite extends PluginSession {

  override protected def settings: Map[String, String] = Map(
    "spark.hadoop.fs.objects.impl" -> classOf[ProbeObjectStore].getName,
    "spark.megaphone.bins" -> "64"
  )

  override protected def afterEach(): Unit = {
    ProbeObjectStore.conditions = ProbeObjectStore.Kept
    ProbeObjectStore.lostAnswers = Map.empty
    super.afterEach()
  }

  private def conf: Configuration = spark.sessionState.newHadoopConf()
  private def planLog(root: String) = new HadoopPlanLog(root, conf)

  test("Of two writers of one record one succeeds, each with one request.") {
    val root = s"objects:${folder("checkpoint")}"
    val threads = Executors.newFixedThreadPool(2)
    val logs = Seq(planLog(root), planLog(root))
    try {
      for (log <- logs) assert(!log.letsTwoAppend && log.numbers().isEmpty)
      ProbeObjectStore.takeRequests()
      for (number <- 0L until 40L) {
        val writers = logs.zipWithIndex.map { case (log, i) =>
          (() => log.create(number, Cancelled(s"plan $i"))): Callable[Boolean]
        }
        val won = threads.invokeAll(writers.asJava).asScala.map(_.get(30, TimeUnit.SECONDS))
        assert(won.count(identity) == 1, s"at number $number")
        val read = logs.head.read(Vector(number)).flatten
        assert(read == Vector(Cancelled(s"plan ${won.indexOf(true)}")))
      }
      assert(ProbeObjectStore.takeRequests().count(_.startsWith("PUT")) == 80)
      assert(logs.head.numbers().sorted == (0L until 40L).toVector)
    } finally threads.shutdownNow()
  }

  test("A record whose answer is lost is an error, and stands there.") {
    val log = planLog(s"objects:${folder("checkpoint")}")
    ProbeObjectStore.lostAnswers = Map("log/0" -> 1)
    assertThrows[IOException](log.create(0, Cancelled("plan")))
    assert(log.read(Vector(0L)) == Vector(Some(Cancelled("plan"))))
    assert(!log.create(0, Cancelled("other")))
  }

  test(
    "A state file takes one request to write and two to read; one that is cancelled is not there."
  ) {
    val root = new Path(s"objects:${folder("state")}")
    val files = new HadoopStateFiles(root, "default", conf)
    val (one, other) = (FileName(3, StateName(1, "a")), FileName(3, StateName(1, "b")))
    ProbeObjectStore.takeRequests()
    val out = files.create(one)
    out.write(Array[Byte](1, 2, 3), 0, 3)
    out.close()
    assert(ProbeObjectStore.takeRequests() == Seq("PUT 1_a.delta"))
    val source = files.open(one)
    assert(source.length == 3 && source.read(1, 2).sameElements(Array[Byte](2, 3)))
    source.close()
    assert(ProbeObjectStore.takeRequests() == Seq("HEAD 1_a.delta", "GET 1_a.delta"))
    val cancelled = files.create(other)
    cancelled.write(1)
    cancelled.cancel()
    assert(ProbeObjectStore.takeRequests().isEmpty)
    assertThrows[MissingFileException](files.open(other))
  }

  for (format <- 1 to 2)
    test(
      s"A query moves, stops and starts again on an object store, in checkpoint format $format."
    ) {
      implicit val encoder: Encoder[Long] = Encoders.scalaLong
      val fed = new FedStream[Long](spark)
      val checkpoint = s"objects:${folder("checkpoint")}"
      def started(): Running =
        withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString) {
          start(fed.stream.toDF("k").groupBy("k").count(), "complete", checkpoint)
        }
      def feed(): Unit = fed.feed((0L until 200L).map(i => i * i % 1009))
      def round(running: Running): Unit = { feed(); running.query.processAllAvailable() }
      def check(running: Running): Unit = {
        val right = fed.batch.toDF("k").groupBy("k").count().collect()
        assert(sorted(running.last) == sorted(right))
      }
      val first = started()
      round(first)
      first.rescale(5, () => feed(), "prepared")
      ProbeObjectStore.takeRequests()
      round(first)
      val state = ProbeObjectStore.takeRequests().filter(_.contains(".delta"))
      assert(state.size == 5 && state.forall(_.startsWith("PUT")), state.mkString(", "))
      check(first)
      first.stop()
      val second = started()
      round(second)
      second.rescale(2, () => feed(), "direct")
      round(second)
      check(second)
      second.stop()
    }

  for (conditions <- ProbeObjectStore.all)
    test(s"A store that takes conditions as ${conditions.words} runs a query; the log tells.") {
      ProbeObjectStore.conditions = conditions
      implicit val encoder: Encoder[Long] = Encoders.scalaLong
      val told = logged(classOf[QueryDriver]) {
        val fed = new FedStream[Long](spark)
        val checkpoint = s"objects:${folder("checkpoint")}"
        val running = start(fed.stream.toDF("k").groupBy("k").count(), "complete", checkpoint)
        fed.feed(Seq(1L))
        running.query.processAllAvailable()
        assert(running.last.map(_.toString) == Seq("[1,1]"))
        assert(planLog(checkpoint).numbers().nonEmpty)
        running.stop()
      }
      val isTold = told.exists(_.contains("creates files although they are there"))
      assert(isTold == (conditions != ProbeObjectStore.Kept), told.mkString("; "))
    }

  test("A file manager that the user has chosen writes all files.") {
    val chosen = conf
    chosen.set("spark.sql.streaming.checkpointFileManagerClass", "com.example.Encrypting")
    val path = new Path(s"objects:${folder("checkpoint")}")
    assert(ObjectStore.of(path, chosen).isEmpty && ObjectStore.of(path, conf).isDefined)
  }
}
