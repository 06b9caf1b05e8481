// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import java.util.Locale

import scala.collection.mutable

import org.apache.spark.sql.{DataFrame, Dataset, Encoders}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{
  GroupState, GroupStateTimeout, OutputMode, StatefulProcessor, TimeMode, TimerValues, TTLConfig,
  ValueState
}

import io.megaphone.spark.query.OperatorSession
import io.megaphone.spark.query.OperatorSession._

/** Of each operator, a batch in which bins may be incomplete has a node directly above each
  * exchange that leads to its state. Other batches have none, and so none of its cost.
  */
class LookAheadSuite extends OperatorSession {
  import LookAheadSuite._

  /** @param exchanges
    *   how many lead to the operator's state
    */
  private def checkNodes(mode: OutputMode, exchanges: Int = 1)(
      make: Dataset[Key] => DataFrame
  ): Unit = {
    val memory = MemoryStream[Key](spark)
    val nodes = mutable.Map.empty[Long, Seq[LookAheadExec]]
    var running: Running = null
    running = start(
      make(memory.toDS()),
      mode.toString.toLowerCase(Locale.ROOT),
      rowsOf = rowsAnd { () =>
        val plan = running.plan
        nodes(nodes.size.toLong) = plan.collect { case node: LookAheadExec => node }
      }
    )
    def feed(): Unit = { memory.addData(rows(nodes.size)); () }
    def batch(): Unit = { feed(); running.query.processAllAvailable() }
    batch()
    running.rescale(workers = 3, () => feed(), mode = "on-demand", strategy = "all-at-once")
    batch() // it seals that all has come
    batch()
    assert(running.movedIn.size == 1)
    val moved = running.movedIn.head
    assert(nodes(moved).size == exchanges)
    nodes(moved).foreach { node =>
      assert(node.child.isInstanceOf[ShuffleExchangeExec], "a row is held back once")
      assert(node.incomplete.size > 2 && node.incomplete.size < node.binsCount)
      assert(node.outputPartitioning == node.child.outputPartitioning)
    }
    val others = nodes.view.filterKeys(n => n < moved || n == nodes.size - 1).values
    assert(others.size > 2 && others.forall(_.isEmpty))
    running.stop()
  }

  private def timed(rows: Dataset[Key]) = rows.withWatermark("at", "3 seconds")

  test("An aggregate, in update and in complete mode.") {
    for (mode <- Seq(OutputMode.Update(), OutputMode.Complete()))
      checkNodes(mode)(_.groupBy("id").count())
  }

  test("An aggregate by a time window.") {
    checkNodes(OutputMode.Append())(
      timed(_).groupBy(window(col("at"), "2 seconds"), col("id")).count()
    )
  }

  test("Deduplications, also within the watermark.") {
    checkNodes(OutputMode.Append())(_.select("id").dropDuplicates())
    checkNodes(OutputMode.Append())(timed(_).select("id", "at").dropDuplicatesWithinWatermark("id"))
  }

  test("Sessions.") {
    checkNodes(OutputMode.Append())(
      timed(_).groupBy(session_window(col("at"), "400 milliseconds"), col("id")).count()
    )
  }

  test("A join of two streams.") {
    checkNodes(OutputMode.Append(), exchanges = 2) { rows =>
      val left = timed(rows).select("id", "at")
      val right = timed(rows).select(col("id").as("id2"), col("at").as("at2"))
      left.join(right, expr("id = id2 and at2 between at and at + interval 2 seconds"))
    }
  }

  test("`flatMapGroupsWithState`.") {
    val s = spark
    import s.implicits._
    checkNodes(OutputMode.Update()) {
      _.groupByKey(k => s"${k.name} ${k.id}")
        .flatMapGroupsWithState[Long, (String, Long)](
          OutputMode.Update(),
          GroupStateTimeout.NoTimeout
        )((key, values, state) => counted(key, values, state))
        .toDF()
    }
  }

  test("`transformWithState`.") {
    val s = spark
    import s.implicits._
    checkNodes(OutputMode.Update()) {
      _.groupByKey(k => s"${k.name} ${k.id}")
        .transformWithState(new Counted, TimeMode.None(), OutputMode.Update())
        .toDF()
    }
  }

  test("An aggregate above a join with a static side, whose keys nobody waits for.") {
    val s = spark
    import s.implicits._
    val static = Seq.tabulate(50)(i => (i.toLong, s"name $i")).toDF("known", "title")
    withConf("spark.sql.autoBroadcastJoinThreshold" -> "-1") {
      checkNodes(OutputMode.Update())(
        _.join(static, expr("id = known")).groupBy("known").agg(count("*"))
      )
    }
  }
}

object LookAheadSuite {
  private def counted(
      key: String,
      values: Iterator[Key],
      state: GroupState[Long]
  ): Iterator[(String, Long)] = {
    state.update(state.getOption.getOrElse(0L) + values.size)
    Iterator((key, state.get))
  }

  private final class Counted extends StatefulProcessor[String, Key, (String, Long)] {
    @transient private var count: ValueState[Long] = _

    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
      count = getHandle.getValueState("count", Encoders.scalaLong, TTLConfig.NONE)

    override def handleInputRows(
        key: String,
        rows: Iterator[Key],
        timers: TimerValues
    ): Iterator[(String, Long)] = {
      count.update(count.get() + rows.size)
      Iterator((key, count.get()))
    }
  }
}
