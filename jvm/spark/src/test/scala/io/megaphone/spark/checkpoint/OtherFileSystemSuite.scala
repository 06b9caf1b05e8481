// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.nio.file.{Files, Path => NioPath}
import java.util.concurrent.{Executors, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.TaskContext
import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.streaming.StreamingQueryException
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.checkpoint.planlog.LogRecord
import io.megaphone.format.{
  BytesSource, DeltaFile, ExecutorAddress, FileName, Footer, StateName, StoreId
}
import io.megaphone.plan.{RoutingTable, StepId}
import io.megaphone.runtime.{Held, Orders, Report}
import io.megaphone.spark.checkpoint.ProbeFileSystem.{Asked, Fault}
import io.megaphone.spark.driver.ApplicationDriver
import io.megaphone.spark.driver.QueryDriver
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.query.{FedStream, PluginSession}
import io.megaphone.spark.wire.MessageBytes
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.ReplicaDuty

/** A checkpoint on a file system that is not Hadoop's local one: what it is asked for, and what
  * becomes of a query when it fails.
  */
final class OtherFileSystemSuite extends PluginSession {

  override protected def settings: Map[String, String] = Map(
    "spark.master" -> "local[2,4]",
    "spark.hadoop.fs.probe.impl" -> classOf[ProbeFileSystem].getName,
    // Else a file system that an earlier test has opened serves whoever lacks the secret.
    "spark.hadoop.fs.probe.impl.disable.cache" -> "true",
    "spark.megaphone.bins" -> "64"
  )

  override protected def afterEach(): Unit = {
    ProbeFileSystem.faults = Nil
    ProbeFileSystem.delayMs = 0
    ProbeFileSystem.isReplacing = false
    super.afterEach()
    ProbeFileSystem.isGuarded = false
  }

  /** A stream of keys that all come again in each batch, in another order in each attempt. */
  private final class Counting(format: Int, sweepBatches: Int = 2) {
    private implicit val encoder: Encoder[Long] = Encoders.scalaLong
    private val keysCount = 200
    private val fed = new FedStream[Long](spark)
    val folder: NioPath = OtherFileSystemSuite.this.folder("checkpoint")
    val checkpoint = s"probe:$folder"

    def feed(): Unit =
      fed.feed((0L until keysCount).map(i => i * i % 1009 + fed.count / keysCount % 3))
    def answer: DataFrame = fed.batch.toDF("k").groupBy("k").count()

    def started(): Running =
      withConf(
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format.toString,
        "spark.megaphone.sweep.intervalBatches" -> sweepBatches.toString,
        "spark.sql.streaming.minBatchesToRetain" -> "2"
      )(
        start(
          fed.stream
            .mapPartitions(OtherFileSystemSuite.inAnyOrder)
            .toDF("k")
            .groupBy("k")
            .count(),
          "complete",
          checkpoint
        )
      )

    def round(running: Running): Unit = { feed(); running.query.processAllAvailable() }

    /** Temporary files that Spark's manager leaves behind a failure are swept with the files of
      * their version.
      */
    def runUntilSwept(running: Running): Unit = {
      val last = 2 + running.batches.last
      round(running)
      eventually(timeout(60.seconds)) { round(running); assert(!unfinished.exists(_ <= last)) }
      check(running)
    }
    def check(running: Running): Unit = assert(sorted(running.last) == sorted(answer.collect()))

    /** The footers of the files that a worker has of a version, by the files' names. */
    def footers(worker: Int, version: Long): Map[String, Footer] = {
      val all = Files.list(folder.resolve("state").resolve("0").resolve(worker.toString))
      try
        all.iterator.asScala
          .filter(f =>
            FileName.parse(worker, f.getFileName.toString).exists(_.name.version == version)
          )
          .map(f =>
            f.getFileName.toString -> new DeltaFile.Reader(
              new BytesSource(f.toString, Files.readAllBytes(f))
            ).footer
          )
          .toMap
      finally all.close()
    }

    /** The versions of what lies in the workers' folders and is no state file. */
    def unfinished: Seq[Long] = {
      val all = Files.walk(folder.resolve("state").resolve("0"))
      try
        all.iterator.asScala
          .filter(f => Files.isRegularFile(f) && f.getParent.getFileName.toString.forall(_.isDigit))
          .map(_.getFileName.toString)
          .filterNot(_.endsWith(".delta"))
          .map(_.split("[._]")(1).toLong)
          .toVector
      finally all.close()
    }
  }

  private def ofState(asked: Seq[Asked]): Map[String, Int] =
    asked
      .filter(a =>
        a.path.contains("/state/0/") && !a.path.contains("_metadata") && !Set("mkdirs", "status")
          .contains(a.operation)
      )
      .groupMapReduce(_.operation)(_ => 1)(_ + _)

  test(
    "The plugin's manager leaves it to the one that Spark takes where none is set, operation by " +
      "operation."
  ) {
    def askedBy(key: Option[String]): Seq[(String, String)] = {
      val conf = spark.sessionState.newHadoopConf()
      conf.unset(ExecutorHost.FileManagerKey)
      key.foreach(conf.set(ExecutorHost.FileManagerKey, _))
      val in = folder("files")
      val (inner, file) = (new Path(s"probe:$in/inner"), new Path(s"probe:$in/inner/1"))
      val manager = CheckpointFileManager.create(new Path(s"probe:$in/new"), conf)
      ProbeFileSystem.takeAsked()
      assert(manager.createCheckpointDirectory() == new Path(s"probe:$in/new"))
      manager.mkdirs(inner)
      manager.createAtomic(file, overwriteIfPossible = false).close()
      assertThrows[FileAlreadyExistsException](
        manager.createAtomic(file, overwriteIfPossible = false).close()
      )
      manager.createAtomic(file, overwriteIfPossible = true).close()
      manager.createAtomic(new Path(inner, "2"), overwriteIfPossible = true).cancel()
      manager.open(file).close()
      assert(manager.exists(file) && manager.list(inner, _.getName == file.getName).length == 1)
      manager.delete(file)
      // A temporary name has an identifier at its end.
      ProbeFileSystem
        .takeAsked()
        .map(a =>
          a.operation -> a.path
            .stripPrefix(in.toString)
            .replaceAll("[0-9a-f]{8}(-[0-9a-f]+)+", "id")
        )
    }
    ProbeFileSystem.isReplacing = true
    // A folder's files are looked at in the disk's order.
    def inOrder(all: Seq[(String, String)]) = all.partition(_._1 == "status") match {
      case (looks, others) => (looks.sorted, others)
    }
    val asked = askedBy(Some(classOf[SchemeCheckpointFileManager].getName))
    assert(inOrder(asked) == inOrder(askedBy(None)))
    assert(
      asked.map(_._1).toSet == Set("mkdirs", "status", "create", "rename", "open", "list", "delete")
    )
  }

  test("Executors are answered while the plan log hangs.") {
    val counting = new Counting(format = 2)
    val running = counting.started()
    counting.round(running)
    val log = Fault(Fault.RenameHangs, "/megaphone/log/", times = 1)
    ProbeFileSystem.faults = Seq(log)
    val threads = Executors.newFixedThreadPool(2)
    try {
      val run = running.query.runId.toString
      val submitted = threads.submit(() => MegaphoneApi.rescale(run, 5, null, "direct", -1))
      eventually(timeout(60.seconds))(assert(log.struck == 1))
      val report =
        Report(ExecutorAddress("7", "host", 1), Held(1, 0, 0))
      val answer = threads.submit { () =>
        val bytes = ApplicationDriver.active.get.receive(MessageBytes.encode(report))
        MessageBytes.decode(bytes).asInstanceOf[Orders]
      }
      assert(answer.get(60, TimeUnit.SECONDS).runs.contains(run))
      assert(!submitted.isDone)
    } finally { ProbeFileSystem.released.release(); threads.shutdown() }
    assert(threads.awaitTermination(60, TimeUnit.SECONDS))
    (1 to 60).find { _ => counting.round(running); running.workers == Seq(5L) }
    assert(running.workers == Seq(5L), "the plan is in the log, and is carried out")
    counting.check(running)
  }

  test("A plan and a step are in force if they are in the log, although its answers were lost.") {
    val counting = new Counting(format = 2)
    val running = counting.started()
    (1 to 2).foreach(_ => counting.round(running))
    val answers = Fault(Fault.AnswerIsLost, "/megaphone/log/", times = 2)
    ProbeFileSystem.faults = Seq(answers)
    MegaphoneApi.rescale(running.query.runId.toString, 5, "all-at-once", "direct", -1)
    assert(answers.struck == 1, "the plan's record")
    (1 to 60).find { _ => counting.round(running); running.workers == Seq(5L) }
    assert(answers.struck == 2, "the seal's record")
    assert(running.workers == Seq(5L))
    counting.check(running)
    running.stop()
    val again = counting.started()
    counting.round(again)
    assert(again.workers == Seq(5L))
    counting.check(again)
  }

  test("A step whose batch fails in three runs is taken back, and the query goes on without it.") {
    val counting = new Counting(format = 2)
    val first = counting.started()
    (1 to 2).foreach(_ => counting.round(first))
    val full = Fault(Fault.DiskIsFull, "/state/0/4/", times = 1000) // the step's new worker
    ProbeFileSystem.faults = Seq(full)
    MegaphoneApi.rescale(first.query.runId.toString, 5, "all-at-once", "direct", -1)
    def fails(running: Running): Unit = {
      intercept[StreamingQueryException]((1 to 60).foreach(_ => counting.round(running)))
      ()
    }
    fails(first)
    for (_ <- 1 to 2) fails(counting.started())
    assert(full.struck == 3 * 4, "each run has tried its task four times")
    val last = counting.started()
    counting.round(last)
    assert(last.workers == Seq(3L))
    counting.check(last)
    val plan = last.plans.last
    assert(plan.get("status").asText == "failed")
    assert(plan.get("reason").asText.contains("is not committed"))
    ProbeFileSystem.faults = Nil
    last.rescale(5, () => counting.feed())
    counting.check(last)
  }

  test("Replicas are prepared from files with the credentials of the query's session.") {
    val counting = new Counting(format = 1)
    ProbeFileSystem.isGuarded = true
    val running = withConf(ProbeFileSystem.Secret -> "open", ProbeFileSystem.NoCache -> "true") {
      val running = counting.started()
      (1 to 4).foreach(_ => counting.round(running))
      running
    }
    val run = running.query.runId.toString
    val table = RoutingTable.roundRobin(64, 3)
    val key = ReplicaKey.forStep(StoreId(0, "default").in(run), 0, 1, StepId("plan", 0, 0))
    val settled = StateName(3, StateName.FixedId)
    val duty = ReplicaDuty(
      key,
      table.binsOf(0).toVector,
      64,
      Some(StateName(0, StateName.FixedId)),
      settled,
      table.contentHash,
      None,
      None
    )
    // As on an executor that has not run a task of the query.
    ExecutorHost.active.get.forget(run)
    ProbeFileSystem.takeAsked()
    eventually(timeout(60.seconds)) { // once the orders name the run
      ExecutorHost.active.get.agent.replicas.prepare(duty)
      val opened = ProbeFileSystem.takeAsked().filter(_.operation == "open").map(_.path)
      assert(opened.exists(_.contains("/state/0/0/3")))
    }
    counting.check(running)
  }

  test("A start makes sixteen folders of workers at the same time.") {
    val counting = new Counting(format = 2)
    val hanging = (1 to 16).map(worker => // Spark has made that of worker 0
      Fault(Fault.MkdirsHangs, s"${counting.folder}/state/0/$worker", times = 1)
    )
    ProbeFileSystem.faults = hanging
    val running = withConf("spark.sql.shuffle.partitions" -> "17")(counting.started())
    try {
      counting.feed()
      eventually(timeout(60.seconds))(assert(hanging.map(_.struck).sum == 16))
    } finally ProbeFileSystem.released.release(hanging.map(_.struck).sum)
    running.query.processAllAvailable()
    counting.check(running)
  }

  test("Sixteen records of the plan log are read at the same time.") {
    val log = new HadoopPlanLog(s"probe:${folder("log")}", spark.sessionState.newHadoopConf())
    val numbers = Vector.range(0L, 20L)
    numbers.foreach(n => assert(log.create(n, LogRecord.Cancelled(s"plan $n"))))
    val hanging = Fault(Fault.OpenHangs, "/megaphone/log/", times = 16)
    ProbeFileSystem.faults = Seq(hanging)
    val reader = Executors.newSingleThreadExecutor()
    try {
      val read = reader.submit(() => log.read(numbers))
      try eventually(timeout(60.seconds))(assert(hanging.struck == 16))
      finally { ProbeFileSystem.faults = Nil; ProbeFileSystem.released.release(hanging.struck) }
      val records = read.get(60, TimeUnit.SECONDS)
      assert(records == numbers.map(n => Some(LogRecord.Cancelled(s"plan $n"))), "in their order")
    } finally reader.shutdown()
  }

  test("A sweep deletes sixteen files at the same time.") {
    val counting = new Counting(format = 2, sweepBatches = 12)
    val hanging = Fault(Fault.DeleteHangs, s"${counting.folder}/state/0/", times = 16)
    ProbeFileSystem.faults = Seq(hanging)
    val running = withConf("spark.sql.shuffle.partitions" -> "9")(counting.started())
    try {
      assert((1 to 120).exists { _ => counting.round(running); hanging.struck > 0 })
      eventually(timeout(60.seconds))(assert(hanging.struck == 16))
    } finally { ProbeFileSystem.faults = Nil; ProbeFileSystem.released.release(hanging.struck) }
    eventually(timeout(60.seconds)) {
      counting.round(running)
      assert(counting.footers(worker = 0, version = 1).isEmpty, "it goes on")
    }
    counting.check(running)
  }

  test("A sweep that hangs keeps no other query from its own.") {
    val (one, other) = (new Counting(format = 2), new Counting(format = 2))
    val hanging = Fault(Fault.DeleteHangs, s"${one.folder}/state/0/0/", times = 1)
    val late = ProbeFileSystem.lateDeletes.get
    ProbeFileSystem.faults = Seq(hanging)
    try {
      val first = one.started()
      assert((1 to 120).exists { _ => one.round(first); hanging.struck == 1 })
      val second = other.started()
      eventually(timeout(120.seconds)) {
        other.round(second)
        assert(other.footers(worker = 0, version = 1).isEmpty, "it is swept")
      }
      one.check(first)
      other.check(second)
    } finally ProbeFileSystem.released.release()
    eventually(timeout(60.seconds))(assert(ProbeFileSystem.lateDeletes.get == late + 1))
  }

  test("A sweep that fails again and again is told, with the folder.") {
    val counting = new Counting(format = 2)
    ProbeFileSystem.faults =
      Seq(Fault(Fault.ListThrows, s"${counting.folder}/state/0", times = Int.MaxValue))
    val running = counting.started()
    val told = logged(classOf[QueryDriver]) {
      for (_ <- 1 to 60) counting.round(running)
    }
    counting.check(running)
    assert(told.nonEmpty && told.forall(_.contains(s"${counting.folder}/state/0")))
    assert(told.forall(_.contains("It is not the first time")))
  }

  test("A sweep that finds a damaged file again and again is told, with the file.") {
    val counting = new Counting(format = 2)
    val running = counting.started()
    val damaged = mutable.Set.empty[String]
    val told = logged(classOf[QueryDriver]) {
      for (_ <- 1 to 60) {
        counting.round(running)
        for (name <- counting.footers(worker = 0, version = running.batches.last + 1).keys) {
          val file = counting.folder.resolve("state/0/0").resolve(name)
          Files.write(file, Files.readAllBytes(file).dropRight(1))
          damaged += file.toString
        }
      }
    }
    counting.check(running)
    assert(told.nonEmpty && told.forall(line => damaged.exists(line.contains)))
  }

  for (format <- Seq(1, 2)) {
    test(
      "A slow one is asked for one file a worker and batch, never for a list, in checkpoint " +
        s"format v$format.",
      isInShortRun = format == 2
    ) {
      val counting = new Counting(format, sweepBatches = 1000)
      ProbeFileSystem.delayMs = 5
      val running = counting.started()
      counting.round(running)
      counting.round(running)
      ProbeFileSystem.takeAsked()
      counting.round(running)
      assert(ofState(ProbeFileSystem.takeAsked()) == Map("create" -> 3, "rename" -> 3))
      running.rescale(5, () => counting.feed(), "prepared", strategy = "all-at-once")
      running.rescale(2, () => counting.feed(), "direct", strategy = "all-at-once")
      assert(
        ofState(ProbeFileSystem.takeAsked()).keySet == Set("create", "rename"),
        "bins that move within an executor are read from no file"
      )
      counting.check(running)
      running.stop()

      ProbeFileSystem.takeAsked()
      val again = counting.started()
      counting.round(again)
      val asked = ofState(ProbeFileSystem.takeAsked())
      assert(
        asked.keySet == Set("create", "rename", "open"),
        "a recovery reads what it needs, and lists nothing"
      )
      counting.check(again)
      assert(counting.unfinished.isEmpty)
    }

    for (kind <- Seq(Fault.RenameSaysNo, Fault.RenameThrows, Fault.AnswerIsLost, Fault.DiskIsFull))
      test(
        s"After ${kind.words} the task is tried again, and nothing is lost, in checkpoint format " +
          s"v$format.",
        isInShortRun = (format == 2) == (kind != Fault.AnswerIsLost)
      ) {
        val counting = new Counting(format)
        var running = counting.started()
        counting.round(running)
        for (worker <- 0 to 2) {
          ProbeFileSystem.faults = Seq(Fault(kind, s"/state/0/$worker/", times = 2))
          counting.round(running)
          assert(ProbeFileSystem.faults.map(_.struck) == Seq(2), "the fault has struck")
          counting.check(running)
        }
        running.stop()
        running = counting.started()
        counting.round(running)
        counting.check(running)
        counting.runUntilSwept(running)
      }

    test(
      "A file that a task of a run before puts in its place late, after the batch was run again, " +
        (if (format == 1) "takes the place of that batch's, and does for it" else "is not read") +
        s", in checkpoint format v$format."
    ) {
      ProbeFileSystem.isReplacing = true
      val counting = new Counting(format, sweepBatches = 1000)
      val running = counting.started()
      counting.round(running)
      ProbeFileSystem.faults = Seq(Fault(Fault.RenameHangs, "/state/0/1/", times = 1))
      counting.feed()
      eventually(timeout(60.seconds))(assert(ProbeFileSystem.faults.map(_.struck) == Seq(1)))
      running.stop()
      val again = counting.started()
      counting.round(again)
      counting.check(again)
      val before = counting.footers(worker = 1, version = 2)
      val renamed = ProbeFileSystem.lateRenames.get
      ProbeFileSystem.released.release()
      eventually(timeout(60.seconds))(assert(ProbeFileSystem.lateRenames.get == renamed + 1))
      val added = counting.footers(worker = 1, version = 2).filterNot { case (name, footer) =>
        before.get(name).contains(footer)
      }

      assert(
        before.size == 1 && added.size == 1 && before.contains(added.keys.head) == (format == 1),
        "under v1 the two have one name"
      )
      val (inTime, late) = (before.values.head, added.values.head)
      assert(late.frames.map(f => (f.bin, f.isImage)) == inTime.frames.map(f => (f.bin, f.isImage)))
      assert(
        late.frames.map(_.chunk.checksum) != inTime.frames.map(_.chunk.checksum),
        "each has its rows in an order of its own"
      )
      counting.round(again)
      counting.check(again)
      again.stop()

      ProbeFileSystem.takeAsked()
      val last = counting.started() // from files alone
      counting.round(last)
      counting.check(last)
      val opened = ProbeFileSystem.takeAsked().filter(_.operation == "open").map(_.path)
      assert(opened.exists(_.endsWith(s"/state/0/1/${added.keys.head}")) == (format == 1))
      val listed = Seq(3L, 4L)
        .flatMap(counting.footers(1, _).values)
        .flatMap(_.chains.values)
        .flatMap(_.frames)
      assert(
        listed.exists(f => f.file == inTime.file && f.chunk.writer == inTime.writer),
        "later files name what was there in time"
      )
    }

    for (kind <- Seq(Fault.RenameSaysNo, Fault.RenameThrows, Fault.DiskIsFull))
      test(
        s"After ${kind.words}, each time, the query fails with a sentence, and goes on when that " +
          s"has an end, in checkpoint format v$format.",
        isInShortRun = kind == Fault.DiskIsFull
      ) {
        val counting = new Counting(format)
        val running = counting.started()
        counting.round(running)
        ProbeFileSystem.faults = Seq(Fault(kind, "/state/0/1/", times = Int.MaxValue))
        val failed = intercept[StreamingQueryException](counting.round(running))
        assert(messagesOf(failed).contains("CANNOT_WRITE_STATE_STORE"))
        if (kind == Fault.DiskIsFull) assert(messagesOf(failed).contains("No space left on device"))
        ProbeFileSystem.faults = Nil
        val again = counting.started()
        counting.round(again)
        counting.check(again)
        counting.runUntilSwept(again)
      }
  }
}

private object OtherFileSystemSuite {

  /** No two attempts of a task are given their rows in the same order. */
  private val inAnyOrder: Iterator[Long] => Iterator[Long] = rows =>
    new Random(TaskContext.get().taskAttemptId()).shuffle(rows.toVector).iterator
}
