// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.IOException
import java.nio.file.Files
import java.util.concurrent.{Callable, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.{Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.planlog.LogRecord.Cancelled
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{FileName, StateName}
import io.megaphone.spark.driver.QueryDriver
import io.megaphone.spark.query.{FedStream, PluginSession}

/** A checkpoint in an object store: what is atomic there, and how many requests it takes. */
final class ObjectStoreSuite extends PluginSession {

  override protected def settings: Map[String, String] = Map(
    "spark.hadoop.fs.objects.impl" -> classOf[ProbeObjectStore].getName,
    // Each test finds out for itself whether the store refuses.
    "spark.hadoop.fs.objects.impl.disable.cache" -> "true",
    "spark.megaphone.bins" -> "64"
  )

  override protected def afterEach(): Unit = {
    ProbeObjectStore.conditions = ProbeObjectStore.Kept
    ProbeObjectStore.lostAnswers = Map.empty
    ProbeObjectStore.sentTwice = None
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

  test("One session has a checkpoint on its disk and one in a store, each written in its way.") {
    implicit val encoder: Encoder[Long] = Encoders.scalaLong
    val local = folder("local")
    val running = Seq(s"file:$local", s"objects:${folder("objects")}").map { checkpoint =>
      val fed = new FedStream[Long](spark)
      fed -> start(fed.stream.toDF("k").groupBy("k").count(), "complete", checkpoint)
    }
    def round(): Unit = for ((fed, query) <- running) {
      fed.feed((0L until 200L).map(i => i * i % 1009))
      query.query.processAllAvailable()
    }
    round()
    ProbeObjectStore.takeRequests()
    round()
    val puts = ProbeObjectStore.takeRequests().filterNot(_.matches("(HEAD|GET) .*"))
    val (state, logs) = puts.partition(_.endsWith(".delta"))
    assert(logs == Seq("PUT 1", "PUT 1"), "a batch's offsets and its commit")
    assert(state.size == 3 && state.forall(_.startsWith("PUT 2")), state.mkString(", "))
    for ((fed, query) <- running) {
      val right = fed.batch.toDF("k").groupBy("k").count().collect()
      assert(sorted(query.last) == sorted(right))
    }
    val names = Files.walk(local).iterator.asScala.map(_.getFileName.toString).toVector
    assert(names.exists(_.endsWith(".delta")))
    assert(!names.exists(_.endsWith(".crc")), "Spark's own manager writes checksums")
  }

  test("Of two writers of a file that must not be replaced the store refuses one.") {
    val root = new Path(s"objects:${folder("offsets")}")
    val managers = Seq.fill(2)(CheckpointFileManager.create(root, conf))
    assert(managers.forall(_.isInstanceOf[SchemeCheckpointFileManager]))
    def opened(writer: Int, path: Path) = {
      val out = managers(writer).createAtomic(path, overwriteIfPossible = false)
      out.write(s"by $writer".getBytes)
      out
    }
    def read(path: Path) = {
      val in = managers.head.open(path)
      try new String(in.readAllBytes())
      finally in.close()
    }
    val path = new Path(root, "0")
    val outs = Seq(0, 1).map(opened(_, path))
    outs(1).close()
    assertThrows[FileAlreadyExistsException](outs(0).close())
    assert(read(path) == "by 1")
    // Of the same bytes, too: two drivers may begin the same batch in one millisecond.
    assertThrows[FileAlreadyExistsException](opened(1, path).close())
    assertThrows[FileAlreadyExistsException](opened(0, path).close())
    ProbeObjectStore.sentTwice = Some("/2")
    opened(1, new Path(root, "2")).close() // it is its own
    ProbeObjectStore.sentTwice = None
    val other = new Path(root, "1")
    opened(0, other).cancel()
    assert(!managers.head.exists(other))
    val out = managers.head.createAtomic(path, overwriteIfPossible = true)
    out.write("anew".getBytes)
    out.close()
    out.close()
    assert(read(path) == "anew")
  }

  test("Whether a store refuses is tried out once in a process, if it does.") {
    val once = conf
    once.set("fs.objects.impl.disable.cache", "false")
    def probes(times: Int): Int = {
      ProbeObjectStore.takeRequests()
      for (_ <- 1 to times) {
        val log = new HadoopPlanLog(s"objects:${folder("log")}", once)
        assert(!log.letsTwoAppend)
      }
      ProbeObjectStore.takeRequests().count(_.startsWith("PUT .probe"))
    }
    assert(probes(3) == 2 && probes(1) == 0)
  }

  test("A file manager that the user has chosen writes all files.") {
    val chosen = conf
    chosen.set("spark.sql.streaming.checkpointFileManagerClass", "com.example.Encrypting")
    val path = new Path(s"objects:${folder("checkpoint")}")
    assert(ObjectStore.of(path, chosen).isEmpty && ObjectStore.of(path, conf).isDefined)
  }
}
