// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, SinglePartition}
import org.apache.spark.sql.execution.{ProjectExec, RangeExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.{
  BroadcastExchangeExec, ReusedExchangeExec, ShuffleExchangeExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperator, StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult
import org.apache.spark.sql.functions._
import org.apache.spark.sql.megaphone.OtherShuffleExec
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, StreamingQueryException}
import org.apache.spark.sql.types.StructType

import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.plan.{Bins, RoutingTable}
import io.megaphone.spark.partitioning.RoutedPartitioning
import io.megaphone.spark.query.KeyedSession

/** Rules and plugins that change a plan after the routing rule: the shuffle that really runs
  * follows the table, or the first batch is refused with the name of what is in the way.
  */
class OtherRulesSuite extends KeyedSession {
  import OtherRulesSuite._

  override protected def settings: Map[String, String] =
    Map("spark.sql.extensions" -> classOf[OtherRules].getName)

  private def changing[A](change: PartialFunction[SparkPlan, SparkPlan])(body: => A): A = {
    OtherRules.change = change
    try body
    finally OtherRules.change = OtherRules.Nothing
  }

  /** Why the first batch of a count by key does not run. */
  private def refusal(
      change: PartialFunction[SparkPlan, SparkPlan],
      shape: DataFrame => DataFrame = counted
  ): String = changing(change) {
    val source = new Source
    val running = start(shape(source.stream), "update")
    source.feed()
    messagesOf(intercept[StreamingQueryException](running.query.processAllAvailable()))
  }

  private def counted(rows: DataFrame): DataFrame = rows.groupBy("k").count()

  test("A shuffle that another rule lays by Spark's own hash is refused in the first batch.") {
    val why = refusal({ case Routed(exchange, by) => hashed(exchange, by) })
    assert(why.contains("has changed the shuffle of its rows into hashpartitioning(k"), why)
    assert(why.contains("switch that rule or plugin off"), why)
  }

  test("So is the shuffle of a static side of a join, which the state's rows lie with.") {
    withConf("spark.sql.autoBroadcastJoinThreshold" -> "-1") {
      val why = refusal(
        {
          case Routed(exchange, by) if exchange.exists(_.isInstanceOf[RangeExec]) =>
            hashed(exchange, by)
        },
        rows => counted(rows).join(spark.range(0, 150).toDF("k"), "k")
      )
      assert(why.contains("has changed the shuffle of its rows into hashpartitioning("), why)
    }
  }

  test("A shuffle that another rule puts into one partition is refused in the first batch.") {
    val why = refusal({ case Routed(exchange, _) =>
      exchange.copy(outputPartitioning = SinglePartition)
    })
    assert(why.contains("has changed the shuffle of its rows into a single partition"), why)
  }

  private def hashed(exchange: ShuffleExchangeExec, by: RoutedPartitioning): SparkPlan =
    exchange.copy(outputPartitioning = HashPartitioning(by.expressions, by.numPartitions))

  test("A shuffle that another rule lays by another table is refused in the first batch.") {
    val why = refusal({ case Routed(exchange, by) =>
      val other = RoutingTable.tabulate(by.table.bins, by.table.workers, 9)(_ => 0)
      exchange.copy(outputPartitioning = new RoutedPartitioning(by.expressions, other))
    })
    assert(why.contains("has changed the shuffle of its rows into megaphone(k"), why)
  }

  for ((kind, isOfColumns) <- Seq("of another kind" -> false, "of columns" -> true))
    test(s"A shuffle $kind is refused in the first batch.") {
      val why = refusal({ case Routed(exchange, _) => OtherShuffleExec(exchange, isOfColumns) })
      assert(why.contains("exchanged by OtherShuffle"), why)
      assert(why.contains("switch off what puts it into the plan"), why)
    }

  test(
    "Behind rules that copy shuffles and put nodes between, each key goes where the table says."
  ) {
    val s = spark
    import s.implicits._
    val source = new Source
    changing {
      case Routed(exchange, _) =>
        exchange.makeCopy(exchange.productIterator.toArray[Any].map(_.asInstanceOf[AnyRef]))
      case o: StatefulOperator => o.withNewChildren(o.children.map(c => ProjectExec(c.output, c)))
    } {
      val places = source.stream
        .as[(Option[Long], Long)]
        .groupByKey(_._1)
        .mapGroupsWithState(GroupStateTimeout.NoTimeout)(place)
        .toDF("k", "n", "partition")
      val running = start(places, "update")
      def round(): Unit = { source.feed(); running.query.processAllAvailable() }
      for (workers <- Seq(3, 5, 2)) {
        if (workers != 3) running.rescale(workers, () => source.feed())
        round()
        val table = running.plan.collectFirst { case g: GroupExec => g.tables.value.after }.get
        assert(table.workers == workers)
        val wrong = placed(running.last).filterNot { case (hash, partition) =>
          partition == table.workerOf(Bins.of(hash, table.bins))
        }
        assert(running.last.nonEmpty && wrong.isEmpty)
      }
      val counts = running.all.groupMapReduce(_.get(0))(_.getLong(1))(math.max)
      val right = counted(source.batch).collect().map(r => r.get(0) -> r.getLong(1)).toMap
      assert(counts == right)
    }
  }

  /** For each row: Spark's own hash of its key, and the partition in which it was. */
  private def placed(rows: Seq[Row]): Seq[(Int, Int)] = {
    val schema = StructType.fromDDL("k bigint, n bigint, partition int")
    val hashed = spark.createDataFrame(rows.asJava, schema).select(hash(col("k")), col("partition"))
    hashed.collect().toSeq.map(row => row.getInt(0) -> row.getInt(1))
  }

  test("A side of two joins that is broadcast, and reused, is no input of a group.") {
    val source = new Source
    val side = broadcast(spark.range(0, 150).toDF("k"))
    val joined = source.stream
      .join(side, "k")
      .dropDuplicates("k")
      .join(side, "k")
      .groupBy("k")
      .count()
    val running = start(joined, "update")
    for (_ <- 1 to 2) { source.feed(); running.query.processAllAvailable() }
    val reused = running.plan.collect { case r: ReusedExchangeExec => r.child }
    assert(reused.exists(_.isInstanceOf[BroadcastExchangeExec]), running.plan)
    val right = source.batch.where("k is not null").select("k").distinct().count()
    assert(running.all.size.toLong == right && running.all.forall(_.getLong(1) == 1))
    running.stop()
  }

  test("An operator that is not known to run on bins is refused by its name.") {
    val unknown = UnknownOperator(spark.range(1).queryExecution.sparkPlan)
    val refused =
      intercept[UnsupportedQueryException](SupportedOperators.check(spark, Seq(unknown)))
    assert(refused.condition == "UNSUPPORTED_OPERATOR")
    assert(
      refused.getMessage.startsWith(
        "The stateful operator UnknownOperator does not run on the binned state store yet; set "
      )
    )
  }

  test("A shuffle that two sides of a join share is checked for both.") {
    val source = new Source
    val rows = source.stream
    val joined =
      rows.as("a").join(rows.as("b"), expr("a.k = b.k and a.v = b.v")).select("a.k", "a.v")
    val running = start(joined, "append")
    for (_ <- 1 to 2) { source.feed(); running.query.processAllAvailable() }
    assert(running.plan.exists(_.isInstanceOf[ReusedExchangeExec]), running.plan)
    assert(sorted(running.all) == sorted(source.batch.where("k is not null").collect()))
  }
}

object OtherRulesSuite {

  /** A shuffle that follows a table. */
  private object Routed {
    def unapply(node: SparkPlan): Option[(ShuffleExchangeExec, RoutedPartitioning)] = node match {
      case e: ShuffleExchangeExec =>
        Some(e.outputPartitioning).collect { case by: RoutedPartitioning => e -> by }
      case _ => None
    }
  }

  /** As a later Spark, or another plugin, may have one. */
  private final case class UnknownOperator(child: SparkPlan)
      extends UnaryExecNode
      with StatefulOperator {
    override def stateInfo: Option[StatefulOperatorStateInfo] = None
    override def validateAndMaybeEvolveStateSchema(
        hadoopConf: Configuration,
        batchId: Long,
        stateSchemaVersion: Int
    ): List[StateSchemaValidationResult] = Nil
    override def output: Seq[Attribute] = child.output
    override protected def doExecute(): RDD[InternalRow] = child.execute()
    override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan =
      copy(child = newChild)
  }

  private val place: (Option[Long], Iterator[(Option[Long], Long)], GroupState[Long]) => (
      Option[Long],
      Long,
      Int
  ) =
    (key, rows, state) => {
      state.update(state.getOption.getOrElse(0L) + rows.size)
      (key, state.get, TaskContext.getPartitionId())
    }
}
