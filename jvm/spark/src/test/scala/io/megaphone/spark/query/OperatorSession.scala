// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Dataset, Encoder, Encoders, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.megaphone.ClockedQuery
import org.apache.spark.sql.streaming.OutputMode
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.log.Survey
import io.megaphone.plan.Bins
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.spark.rule.GroupExec

/** Runs a query on bins, and on one of Spark's own providers. With one bin a worker, a key that the
  * provider looks for in any bin but the exchange's is an error, never a wrong result.
  */
abstract class OperatorSession extends PluginSession {
  import OperatorSession._

  private val bins = 8

  override protected def settings: Map[String, String] = Map(
    "spark.megaphone.bins" -> bins.toString,
    "spark.sql.shuffle.partitions" -> bins.toString,
    // Without it RocksDB, which is compared with, uploads itself whole in each batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
  )

  protected implicit val keys: Encoder[Key] = Encoders.product[Key]

  /** Keys that are hard on a hash: some come in every batch, some in one. */
  protected def rows(batch: Int): Seq[Key] =
    rows(batch, new Random(1)) ++ rows(batch, new Random(2L + batch))

  private def rows(batch: Int, random: Random): Seq[Key] = {
    def maybe[A >: Null](value: => A): A = if (random.nextInt(8) == 0) null else value
    Seq.fill(40) {
      Key(
        maybe[java.lang.Long](
          Seq(0L, -1L, Long.MinValue, random.nextInt(50).toLong)(random.nextInt(4))
        ),
        maybe[java.lang.Double](
          Seq(
            0.0,
            -0.0,
            Double.NaN,
            java.lang.Double.longBitsToDouble(0x7ff8000000000001L),
            random.nextInt(60) / 7.0
          )(
            4 * random.nextInt(2) max random.nextInt(5)
          )
        ),
        maybe(Seq("", "a", "A", "日本", "ß", random.nextString(2))(random.nextInt(6))),
        maybe(Array.fill(random.nextInt(12))(random.nextInt(3).toByte)),
        maybe(
          new java.math.BigDecimal("12345678901234567890.5")
            .multiply(new java.math.BigDecimal(random.nextInt(16) - 8))
        ),
        maybe(Inner(random.nextInt(30), maybe(Seq("x", "y")(random.nextInt(2))))),
        new Timestamp(1700000000000L + batch * 10000L + random.nextInt(5000))
      )
    }
  }

  /** So many batches on bins give what they give on Spark's own provider, null by null and zero by
    * zero.
    */
  protected def check(mode: OutputMode, sparks: String = OnMaps, batches: Int = 2)(
      make: Dataset[Key] => DataFrame
  )(looks: Running => Unit): Unit = {
    def run(look: Running => Unit): Seq[String] = {
      val memory = MemoryStream[Key](spark)
      val running = start(make(memory.toDS()), mode.toString.toLowerCase(java.util.Locale.ROOT))
      (0 until batches).foreach { batch =>
        memory.addData(rows(batch))
        running.query.processAllAvailable()
      }
      look(running)
      looks(running)
      running.stop()
      sorted(running.all.map(r => Row.fromSeq(r.toSeq.map(printed))))
    }
    val onBins = run { running =>
      val tables = running.plan.collect { case g: GroupExec => g.tables.value.after }
      assert(tables.nonEmpty && tables.forall(_.binCounts.toSeq == Seq.fill(bins)(1)))
      eventually(timeout(60.seconds)) { // executors tell them as they can
        assert(running.keys.count(_._2 > 0) > bins / 2, "the keys are in few bins only")
      }
      checkHashes(running)
    }
    val onSparks = withConf("spark.sql.streaming.stateStore.providerClass" -> sparks)(
      run(r => assert(r.plan.collect { case g: GroupExec => g }.isEmpty))
    )
    assert(onBins.nonEmpty)
    assert(onBins == onSparks)
  }

  /** What lies in the logs has the hashes by which the exchange chose its bins. */
  private def checkHashes(running: Running): Unit = {
    val registry = ExecutorHost.active.get.agent.registry
    val run = running.query.runId.toString
    val workers = registry.workers(_ => true).filter(_.store.run == run)
    assert(workers.nonEmpty)
    for (worker <- workers; holding <- registry.holding(worker); bin <- holding.bins) {
      val survey = Survey.of(holding.log(bin), registry.keyReaderOf(worker.store).get)
      assert(survey.areAll(Bins.of(_, bins) == bin), s"in bin $bin of $worker")
    }
  }

  /** Of Spark's providers not all know checkpoint format 2. */
  private def onSparks[A](provider: String)(body: => A): A =
    withConf(
      "spark.sql.streaming.stateStore.providerClass" -> provider,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "1"
    )(body)

  /** How many batches are compared where some move: more than the moves take. */
  protected def comparedBatches: Int = 10

  /** Looks at a query after each of its moves. */
  protected def lookAtMove(running: Running): Unit =
    assert(running.plans.last.get("moves_done").asInt > bins / 2, "few bins have moved")

  /** Whether a batch gave out, among others, a row that says so. */
  protected def says(text: String)(running: Running, batch: Long): Boolean =
    running.byBatch.toMap.apply(batch).exists(_.toString.contains(text))

  /** Whether rows went from the state in a batch. */
  protected def removes(running: Running, batch: Long): Boolean =
    running.progressOf(batch).exists(_.numRowsRemoved > 0)

  /** Some batches on bins, with a move down, prepared, and one up, direct, among them, give what
    * they give on Spark's own provider.
    *
    * @param isDue
    *   what has to be so in the very batches of the moves: each batch has rows then
    */
  protected def checkMoved(
      mode: OutputMode,
      sparks: String = OnMaps,
      looks: Running => Unit = _ => (),
      isDue: Option[(Running, Long) => Boolean] = None
  )(make: Dataset[Key] => DataFrame): Seq[String] =
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> isDue.isEmpty.toString) {
      def run(moves: (Running, () => Unit) => Unit): Seq[String] = {
        val memory = MemoryStream[Key](spark)
        val running = start(make(memory.toDS()), mode.toString.toLowerCase(java.util.Locale.ROOT))
        var batch = 0
        def feed(): Unit = { memory.addData(rows(batch)); batch += 1 }
        def round(): Unit = { feed(); running.query.processAllAvailable() }
        round()
        round()
        moves(running, () => feed())
        assert(batch < comparedBatches, "the moves took more batches than are compared")
        while (batch < comparedBatches) round()
        running.stop()
        sorted(running.all.map(r => Row.fromSeq(r.toSeq.map(printed))))
      }
      val onBins = run { (running, feed) =>
        for ((workers, transfer) <- Moves) {
          running.rescale(workers, feed, transfer, strategy = "all-at-once")
          lookAtMove(running)
          for (due <- isDue; moved <- running.movedIn)
            assert(due(running, moved), s"nothing is due in batch $moved, in which bins moved")
        }
        assert(running.workers.toSet == Set(Moves.last._1.toLong))
        looks(running)
      }
      assert(onBins.nonEmpty)
      assert(onBins == onSparks(sparks)(run((_, _) => ())))
      onBins
    }

  /** The same for a query that goes by the clock, with a batch a second: batch by batch, with the
    * same moves.
    *
    * @param isDue
    *   what has to be so in the very batches of the moves
    */
  protected def checkMovedByClock(
      mode: OutputMode,
      sparks: String,
      isDue: (Running, Long) => Boolean
  )(make: Dataset[Key] => DataFrame): Unit = {
    val batches = comparedBatches + 4
    def run(moves: (Running, () => Unit) => Unit): Map[Long, Seq[String]] = {
      val memory = MemoryStream[Key](spark)
      val clocked =
        new ClockedQuery(spark, make(memory.toDS()), mode, folder("checkpoint").toString)
      var batch = 0
      def round(): Unit = {
        memory.addData(rows(batch).takeRight(12 + batch % 3 * 30)); batch += 1; clocked.tick()
      }
      for (_ <- 1 to 4) round() // until what was kept first has come to its end
      moves(new Running(clocked.query, clocked.byBatch), () => round())
      assert(batch <= batches, "the moves took more batches than are compared")
      while (batch < batches) round()
      clocked.query.stop()
      clocked.byBatch.map { case (id, given) => id -> sorted(given) }.toMap
    }
    val onBins = run { (running, round) =>
      for ((workers, transfer) <- Moves) {
        running.rescaleBy(workers, transfer, strategy = "all-at-once")(round())
        lookAtMove(running)
        for (moved <- running.movedIn)
          assert(isDue(running, moved), s"nothing is due in batch $moved, in which bins moved")
      }
    }
    val onSpark = onSparks(sparks)(run((_, _) => ()))
    for (batch <- 0L until batches.toLong)
      assert(onBins(batch) == onSpark(batch), s"in batch $batch")
  }

  private def printed(value: Any): Any = value match {
    case bytes: Array[_] => bytes.mkString("[", " ", "]")
    case other => other
  }
}

object OperatorSession {

  /** Two executors that are processes, with one core each. They live for seconds, so the compiler
    * and the collector are those that cost least then.
    */
  val TwoExecutors: Map[String, String] = Map(
    "spark.master" -> "local-cluster[2,1,1024]",
    "spark.locality.wait" -> "20s",
    "spark.executor.extraJavaOptions" -> "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
  )

  /** Workers, with at first a bin each, and how their bins come. */
  val Moves: Seq[(Int, String)] = Seq(3 -> "prepared", 8 -> "direct")

  /** Spark's providers: the one that keeps maps, and the one that knows column families. */
  val OnMaps = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  val OnRocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  final case class Inner(x: Int, y: String)
  final case class Key(
      id: java.lang.Long,
      ratio: java.lang.Double,
      name: String,
      bytes: Array[Byte],
      amount: java.math.BigDecimal,
      inner: Inner,
      at: Timestamp
  )
}
