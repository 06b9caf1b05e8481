// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.util.NativeCodeLoader
import org.apache.logging.log4j.Level
import org.apache.spark.{SPARK_VERSION, SparkException}
import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StreamingQueryException

import io.megaphone.BinnedStateStoreProvider
import io.megaphone.checkpoint.planlog.PlanLog
import io.megaphone.errors.PlanRefusedException
import io.megaphone.spark.checkpoint.{
  FilesWithoutLinks, HadoopPlanLog, SchemeCheckpointFileManager, StartedProcesses
}
import io.megaphone.spark.driver.ApplicationDriver
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.query.OperatorSession.{OnMaps, OnRocks}
import io.megaphone.spark.rule.GroupExec

/** A checkpoint says which provider, bins, operators and format it has; what does not fit is
  * refused by name, and nothing is lost.
  */
class CheckpointsSuite extends PluginSession {
  private implicit val encoder: Encoder[(Long, Long)] = Encoders.product[(Long, Long)]
  private val provider = "spark.sql.streaming.stateStore.providerClass"
  private val OnBins = classOf[BinnedStateStoreProvider].getName
  private val formatVersion = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  /** A query that is run on a checkpoint a batch at a time, as processes that are started one after
    * the other do.
    */
  private final class Counted {
    val checkpoint: Path = folder("checkpoints").toRealPath().resolve("new")
    private val fed = new FedStream[(Long, Long)](spark)

    def feed(): Unit = fed.feed((0L until 50L).map(i => (i % 7, fed.count + i)))

    def counts(rows: DataFrame): DataFrame =
      rows.toDF("k", "v").groupBy("k").agg(count("*"), sum("v"))

    /** Gives what the batch gave. */
    def run(make: DataFrame => DataFrame = counts, mode: String = "complete")(
        look: Running => Unit = _ => ()
    ): Seq[String] = {
      val running = start(make(fed.stream.toDF()), mode, checkpoint.toString)
      feed()
      try {
        running.query.processAllAvailable()
        look(running)
        sorted(running.last)
      } finally running.stop()
    }

    def refused(make: DataFrame => DataFrame = counts, mode: String = "complete"): String =
      messagesOf(intercept[StreamingQueryException](run(make, mode)()))

    def answer: Seq[String] = sorted(counts(fed.batch.toDF()).collect())

    /** The checkpoint format of the last run. */
    def format: Int = {
      val conf = spark.sparkContext.hadoopConfiguration
      new PlanLog(new HadoopPlanLog(checkpoint.toString, conf)).read().last.get.checkpointFormat
    }

    def offsets: Seq[Path] = {
      val files = Files.list(checkpoint.resolve("offsets"))
      try files.iterator.asScala.filter(_.getFileName.toString.forall(_.isDigit)).toVector
      finally files.close()
    }
  }

  for ((of, format) <- Seq(OnMaps -> 1, OnRocks -> 1, OnRocks -> 2))
    test(
      s"A checkpoint that ${of.split('.').last} began in format $format runs on, on it and " +
        "unmoved, as the log and a refused plan tell."
    ) {
      val counted = new Counted
      withConf(provider -> of, formatVersion -> format.toString)(counted.run()())
      var refused: PlanRefusedException = null
      val told = logged(classOf[ApplicationDriver], Level.INFO) {
        withConf(formatVersion -> format.toString) {
          val last = counted.run() { running =>
            assert(running.plan.collect { case g: GroupExec => g }.isEmpty)
            refused = intercept[PlanRefusedException](
              MegaphoneApi.rescale(running.query.runId.toString, 5, null, null, -1)
            )
          }
          assert(last == counted.answer)
        }
      }
      assert(told.count(_.contains(s"keeps its state on $of")) == 1, told)
      assert(refused.condition == "NO_BINNED_STATE")
      assert(
        refused.getMessage.contains(s"keeps its state on $of") && refused.getMessage
          .contains("start the query from a new checkpoint")
      )
      assert(!Files.exists(counted.checkpoint.resolve("megaphone")))
    }

  for (of <- Seq(OnBins, OnMaps))
    test(s"A query on ${of.split('.').last} runs where a file system has no hard links.") {
      val counted = new Counted
      FilesWithoutLinks.tried.clear()
      withConf(ExecutorHost.FileManagerKey -> classOf[FilesWithoutLinks].getName, provider -> of) {
        for (_ <- 1 to 3) {
          val last = counted.run() { running =>
            counted.feed()
            running.query.processAllAvailable()
          }
          assert(last == counted.answer)
        }
      }
      val tried = FilesWithoutLinks.tried.asScala.toSeq
      for (log <- Seq("offsets", "commits")) {
        val (probes, files) = tried
          .filter(_.getParent.getFileName.toString == log)
          .map(_.getFileName.toString)
          .partition(_.startsWith(".probe."))
        assert(files == (0 until 6).map(_.toString), "each file is tried to be linked")
        assert(probes.size == 3, "each run tries out once that there are no links")
      }
    }

  for ((of, format) <- Seq(OnMaps -> 1, OnRocks -> 2))
    test(
      s"Our provider forced onto a checkpoint of ${of.split('.').last} in format $format is " +
        "refused, with what to do; then it runs on as before."
    ) {
      val ours = "io.megaphone.BinnedStateStoreProvider"
      val counted = new Counted
      withConf(formatVersion -> format.toString) {
        withConf(provider -> of)(counted.run()())
        val written = counted.offsets.map(file => file -> Files.readString(file))
        written.foreach { case (file, text) =>
          assert(text.contains(of)); Files.writeString(file, text.replace(of, ours))
        }
        val message = counted.refused()
        assert(
          message.contains(
            "if one of Spark's own state store providers wrote it, set " +
              "spark.sql.streaming.stateStore.providerClass to that provider"
          ),
          message
        )
        assert(!Files.exists(counted.checkpoint.resolve("megaphone/log/0")))
        written.foreach { case (file, text) => Files.writeString(file, text) }
        (counted.offsets.toSet -- written.map(_._1))
          .foreach(file => Files.writeString(file, Files.readString(file).replace(ours, of)))
        assert(counted.run()() == counted.answer)
      }
    }

  test("A checkpoint whose plan log is gone is refused, and runs on when it is back.") {
    val counted = new Counted
    counted.run()()
    val (there, away) =
      (counted.checkpoint.resolve("megaphone"), folder("away").resolve("megaphone"))
    Files.move(there, away)
    val message = counted.refused()
    assert(
      message.contains("has batches but no plan log in megaphone/log") && message.contains(
        "restore that folder, or start from a new checkpoint"
      ),
      message
    )
    if (Files.exists(there)) { Files.delete(there.resolve("log")); Files.delete(there) }
    Files.move(away, there)
    assert(counted.run()() == counted.answer)
  }

  for (format <- Seq("1", "2"))
    test(
      s"A checkpoint in format $format whose plan log lacks its last record is refused, by a " +
        "batch and by a reader, and runs on when the record is back."
    ) {
      withConf(formatVersion -> format) {
        val counted = new Counted
        counted.run() { running =>
          MegaphoneApi.rescale(running.query.runId.toString, 5, "all-at-once", "direct", -1)
          ()
        }
        counted.run()() // takes the step in its first batch, and commits it
        val log = counted.checkpoint.resolve("megaphone/log")
        val seal = log.resolve((Files.list(log).count() - 1).toString)
        val away = folder("away").resolve("seal")
        Files.move(seal, away)
        val started = Files.list(log).count()
        def read() = spark.read.format("statestore").load(counted.checkpoint.toString).collect()
        assert(
          messagesOf(intercept[SparkException](read()))
            .contains("The plan log does not fit the state")
        )
        assert(counted.refused().contains("The plan log does not fit the state"))
        (started to Files.list(log).count())
          .foreach(number => Files.deleteIfExists(log.resolve(number.toString)))
        Files.move(away, seal)
        assert(counted.run()() == counted.answer)
      }
    }

  if (SPARK_VERSION < "4.3")
    test("Checkpoint format 2 is not read as 1, but format 1 is gone on with as 2.") {
      val counted = new Counted
      withConf(formatVersion -> "1")(counted.run()())
      withConf(formatVersion -> "2") { counted.run()(); assert(counted.run()() == counted.answer) }
      withConf(formatVersion -> "1") {
        val message = counted.refused()
        assert(
          message.contains("set spark.sql.streaming.stateStore.checkpointFormatVersion to 2"),
          message
        )
      }
      withConf(formatVersion -> "2")(assert(counted.run()() == counted.answer))
      assert(counted.format == 2)
    }
  else
    for ((begun, later) <- Seq(1 -> 2, 2 -> 1))
      test(
        s"Spark itself keeps a checkpoint of format $begun in it, where a session says $later."
      ) {
        val counted = new Counted
        withConf(formatVersion -> begun.toString)(counted.run()())
        withConf(formatVersion -> later.toString) {
          counted.run()(); assert(counted.run()() == counted.answer)
        }
        assert(counted.format == begun)
      }

  test("No process is started for any file of a query; by Spark's own manager some are.") {
    def started(manager: Class[_]): Seq[String] = {
      val counted = new Counted
      withConf(ExecutorHost.FileManagerKey -> manager.getName) {
        val processes = StartedProcesses.during(_ => true) {
          counted.run()(); assert(counted.run()() == counted.answer)
        }
        processes.filter(
          _.contains(counted.checkpoint.toString)
        ) // others clean up behind sessions of Spark that have ended
      }
    }
    // Where Hadoop's native library is missing, Spark's manager shows that processes are seen.
    assert(
      started(
        classOf[FileContextBasedCheckpointFileManager]
      ).nonEmpty || NativeCodeLoader.isNativeCodeLoaded
    )
    assert(started(classOf[SchemeCheckpointFileManager]) == Nil)
  }

  test("Another operator on a checkpoint is refused, and the first one runs on.") {
    val counted = new Counted
    counted.run()()
    val message = counted.refused(_.dropDuplicates("_1"), "append")
    assert(message.contains("stateStoreSave") && message.contains("dedupe"), message)
    assert(counted.run()() == counted.answer)
  }
}
