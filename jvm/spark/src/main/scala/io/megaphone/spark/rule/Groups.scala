// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{CoalesceExec, SparkPlan}
import org.apache.spark.sql.execution.exchange.{
  Exchange, ReusedExchangeExec, ShuffleExchangeExec, ShuffleExchangeLike
}
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec

import io.megaphone.errors.UnroutableGroupException
import io.megaphone.plan.Group
import io.megaphone.plan.Operator
import io.megaphone.plan.RoutingTable
import io.megaphone.spark.partitioning.RoutedPartitioning

/** Stateful operators with no exchange between them, and the exchanges at their boundary.
  *
  * @param operators
  *   the plan's nodes with state
  * @param exchanges
  *   all shuffles that feed the operators, which change together or not at all; none if the group
  *   is in a single partition and cannot move
  */
final case class PlanGroup(
    operators: Vector[StatefulOperator],
    exchanges: Vector[ShuffleExchangeExec]
) {
  val id: Long = operators.map(_.stateInfo.get.operatorId).min
  def isRouted: Boolean = exchanges.nonEmpty
}

/** Finds the groups of a batch's physical plan, and re-routes them.
  *
  * Given a plan after `EnsureRequirements`.
  *   1. From the leaves up, each node passes on its ''inputs'': the exchanges and the leaves that
  *      feed it with no shuffle between.
  *   1. A node that relies on the clustering of its children, such as a stateful operator or a
  *      join, ties their inputs together. They must route alike, or rows that should meet do not.
  *   1. Inputs tied to a stateful operator form a group with it. The inputs must all be hash
  *      exchanges, or all have one partition. The group cannot move if a node above, such as a
  *      limit, relies on that one partition: Spark adds no exchange for it then.
  *   1. Re-routing replaces the partitioning of all exchanges of a group and the number of
  *      partitions in its operators' state infos, and puts a node above each topmost operator.
  */
object Groups {

  /** The groups of a plan. Throws UnroutableGroupException if one cannot be re-routed. */
  def find(plan: SparkPlan): Vector[PlanGroup] = {
    val ties = new Ties
    collect(plan, ties)
    ties.components.flatMap { nodes =>
      val operators = nodes.collect { case o: StatefulOperator => o }
      val inputs = nodes.filterNot(_.isInstanceOf[StatefulOperator])
      Option.when(operators.nonEmpty)(groupOf(operators, inputs, inputs.exists(ties.isSingle)))
    }
  }

  /** The group as the plan log records it. */
  def described(group: PlanGroup): Group = {
    val byId = group.operators.groupBy(_.stateInfo.get.operatorId).toVector.sortBy(_._1)
    val operators = byId.map { case (id, nodes) =>
      Operator(
        id,
        SupportedOperators.nameOf(nodes),
        SupportedOperators.storesOf(nodes),
        SupportedOperators.familiesOf(nodes)
      )
    }
    Group(
      operators,
      if (group.isRouted) group.operators.head.stateInfo.get.numPartitions else 1,
      group.isRouted
    )
  }

  def stateful(node: SparkPlan): Option[StatefulOperator] = node match {
    case o: StatefulOperator if o.stateInfo.isDefined => Some(o)
    case _ => None
  }

  /** The children of a node, without an initial state that the batch does not use. Spark leaves
    * that in the plan, unplanned or without an exchange, and never runs it.
    */
  def childrenThatRun(node: SparkPlan): Seq[SparkPlan] = node match {
    case f: FlatMapGroupsWithStateExec if !f.hasInitialState => Seq(f.child)
    case t: TransformWithStateExec if !t.hasInitialState => Seq(t.child)
    case t: TransformWithStateInPySparkExec if !t.hasInitialState => Seq(t.child)
    case other => other.children
  }

  /** Rewrites the plan: exchanges by `tableOf`, operators by `rewriteOperator`. Puts
    * `aboveExchange` above each exchange that brings rows of the stream to a group's state, by the
    * expressions given, and `above` above its topmost operators.
    */
  def reroute(
      plan: SparkPlan,
      groups: Vector[PlanGroup],
      tableOf: PlanGroup => RoutingTable,
      rewriteOperator: (StatefulOperator, PlanGroup) => SparkPlan,
      aboveExchange: (ShuffleExchangeExec, Seq[Expression], PlanGroup) => SparkPlan,
      above: (SparkPlan, PlanGroup) => SparkPlan
  ): SparkPlan = {
    val byOperator = groups.flatMap(g => g.operators.map(o => NodeKey(o) -> g)).toMap
    val byExchange = groups.flatMap(g => g.exchanges.map(e => NodeKey(e) -> g)).toMap
    def go(node: SparkPlan, covered: Set[Long]): SparkPlan = node match {
      case e: ShuffleExchangeExec if byExchange.contains(NodeKey(e)) =>
        val group = byExchange(NodeKey(e))
        val keys = keysOf(e).get
        val routed = e.copy(
          outputPartitioning = new RoutedPartitioning(keys, tableOf(group)),
          child = go(e.child, Set.empty)
        )
        // One that leads to no state tells nothing of it, and a static side has all keys there are.
        if (covered(group.id) && isOfStream(e)) aboveExchange(routed, keys, group) else routed
      case e: ShuffleExchangeLike => e.mapChildren(go(_, Set.empty))
      case o: StatefulOperator if byOperator.contains(NodeKey(o)) =>
        val group = byOperator(NodeKey(o))
        val rewritten = rewriteOperator(o, group).mapChildren(go(_, covered + group.id))
        rewritten.copyTagsFrom(o)
        if (covered(group.id)) rewritten else above(rewritten, group)
      case other => other.mapChildren(go(_, covered))
    }
    go(plan, Set.empty)
  }

  /** Whether rows may be of the stream: if it is not known, they may. */
  private def isOfStream(exchange: ShuffleExchangeExec): Boolean =
    exchange.child
      .collectFirst { case node if node.logicalLink.isDefined => node.logicalLink.get }
      .forall(_.isStreaming)

  private def collect(node: SparkPlan, ties: Ties): Vector[SparkPlan] = node match {
    case e: ShuffleExchangeLike =>
      e.children.foreach(collect(_, ties))
      Vector(e)
    case reused: ReusedExchangeExec =>
      Vector(reused.child).collect { case e: ShuffleExchangeLike => e }
    case e: Exchange =>
      e.children.foreach(collect(_, ties))
      Vector.empty // a broadcast has no partitions to agree on
    case c: CoalesceExec =>
      collect(c.child, ties)
      Vector(c) // reduces the partitions without a shuffle: nodes above do not see those below
    case leaf if leaf.children.isEmpty => Vector(leaf)
    case other =>
      val inputs = childrenThatRun(other).map(collect(_, ties))
      val required = other.requiredChildDistribution.zip(inputs)
      val clustered = required.collect { case (d, in) if isClustered(d) => in }.flatten.toVector
      required.foreach { case (d, in) => if (d == AllTuples) ties.keepSingle(in) }
      stateful(other) match {
        case Some(o) => ties.tie(o +: clustered)
        case None =>
          // Two inputs may be under one child: a union passes on a partitioning its sides share.
          if (clustered.size > 1) ties.tie(clustered)
      }
      inputs.flatten.toVector
  }

  private def isClustered(d: Distribution): Boolean = d match {
    case _: ClusteredDistribution | _: StatefulOpClusteredDistribution => true
    case AllTuples => true
    case _ => false
  }

  /** @param isSingle
    *   whether a node above relies on the inputs' one partition
    */
  private def groupOf(
      operators: Vector[StatefulOperator],
      inputs: Vector[SparkPlan],
      isSingle: Boolean
  ): PlanGroup = {
    val hashed = inputs.collect { case e: ShuffleExchangeExec if keysOf(e).isDefined => e }
    def names = operators.map(_.nodeName).distinct.mkString(", ")
    if (isSingle || inputs.forall(_.outputPartitioning.numPartitions == 1) && hashed.isEmpty)
      PlanGroup(operators, Vector.empty)
    else if (hashed.size < inputs.size) {
      val others = inputs.filterNot(hashed.contains)
      val nodes = others.map(_.nodeName).distinct.mkString(", ")
      val (why, remedy) = others.collectFirst { case e: ShuffleExchangeLike => e } match {
        case Some(_) =>
          (
            s"exchanged by $nodes, which is not Spark's own exchange by hash",
            "switch off what puts it into the plan, such as a plugin for columns"
          )
        case None =>
          (
            s"partitioned without an exchange of its own ($nodes), as a cached or bucketed table " +
              "is",
            "drop the cache or the bucketing"
          )
      }
      throw new UnroutableGroupException(
        s"The state of $names cannot be moved, because a side of the same join or operator is " +
          s"$why; $remedy, or run this query on one of Spark's own state store providers."
      )
    } else {
      operators.foreach(checkKeys(_, hashed))
      PlanGroup(operators, hashed)
    }
  }

  /** The keys of an exchange by hash. Spark 4.3 has one for outer joins that spreads rows with a
    * null key, for they meet nothing: the table may lay them together.
    */
  private def keysOf(exchange: ShuffleExchangeExec): Option[Seq[Expression]] =
    exchange.outputPartitioning match {
      case hash: HashPartitioningLike => Some(hash.expressions)
      case _ => None
    }

  /** The provider computes bins from the operator's keys, the exchange from its own keys. Throws
    * UnroutableGroupException if the two differ in number or in a type.
    */
  private def checkKeys(operator: StatefulOperator, exchanges: Vector[ShuffleExchangeExec]): Unit =
    operator.requiredChildDistribution.foreach {
      case StatefulOpClusteredDistribution(keys, _) => checkCount(operator, keys, exchanges)
      case d: ClusteredDistribution => checkCount(operator, d.clustering, exchanges)
      case _ => ()
    }

  private def checkCount(
      operator: StatefulOperator,
      keys: Seq[Expression],
      exchanges: Vector[ShuffleExchangeExec]
  ): Unit =
    exchanges.foreach { e =>
      val routed = keysOf(e).get
      val isSame = routed.size == keys.size && routed.zip(keys).forall { case (r, k) =>
        r.dataType == k.dataType
      }
      if (!isSame)
        throw new UnroutableGroupException(
          s"The state of ${operator.nodeName} cannot be moved, because its rows are exchanged by " +
            s"(${routed.mkString(", ")}) and its state is kept by (${keys.mkString(", ")}); " +
            "start from a new checkpoint, or run this query on one of Spark's own state store " +
            "providers."
        )
    }

  /** Compares plan nodes by identity: equal subtrees of one plan are different exchanges. */
  private final class NodeKey(val node: SparkPlan) {
    override def equals(other: Any): Boolean = other match {
      case k: NodeKey => k.node eq node; case _ => false
    }
    override def hashCode: Int = System.identityHashCode(node)
  }
  private object NodeKey { def apply(node: SparkPlan): NodeKey = new NodeKey(node) }

  /** Union-find over plan nodes. */
  private final class Ties {
    private val parent = mutable.LinkedHashMap.empty[NodeKey, NodeKey]
    private val single = mutable.Set.empty[NodeKey]

    /** A node above takes these inputs' rows as they are because they are in one partition. */
    def keepSingle(inputs: Seq[SparkPlan]): Unit = single ++= inputs.map(NodeKey(_))

    def isSingle(input: SparkPlan): Boolean = single(NodeKey(input))

    def tie(nodes: Seq[SparkPlan]): Unit = {
      val keys = nodes.map(NodeKey(_))
      keys.foreach(k => parent.getOrElseUpdate(k, k))
      keys.tail.foreach(k => parent(root(k)) = root(keys.head))
    }

    def components: Vector[Vector[SparkPlan]] =
      parent.keys.toVector
        .groupBy(root)
        .values
        .map(_.map(_.node))
        .toVector
        .sortBy(_.map(n => parent.keys.toVector.indexOf(NodeKey(n))).min)

    private def root(k: NodeKey): NodeKey = {
      var r = k
      while (parent(r) != r) r = parent(r)
      r
    }
  }
}
