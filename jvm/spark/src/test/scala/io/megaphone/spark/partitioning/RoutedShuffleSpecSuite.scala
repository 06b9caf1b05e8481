// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.plan.{Move, RoutingTable}

/** Spark takes a routed side for co-partitioned with nothing but a side that it has shuffled by the
  * same table.
  */
class RoutedShuffleSpecSuite extends AnyFunSuite {
  private val table = RoutingTable.roundRobin(64, 4)
  private val moved = table.moved(Seq(Move(0, 1)), 1, 4)

  private def column(name: String) = AttributeReference(name, LongType)()
  private val (a, b, c) = (column("a"), column("b"), column("c"))
  private val (x, y, z) = (column("x"), column("y"), column("z"))

  private def routed(t: RoutingTable, keys: Expression*) = new RoutedPartitioning(keys, t)
  private def shuffled(t: RoutingTable, keys: Expression*) =
    new RoutedPartitioning(keys, t, isOfBatch = false)
  private def spec(of: Partitioning, clustering: Expression*): ShuffleSpec =
    of.createShuffleSpec(ClusteredDistribution(clustering))

  /** Whether two specs are compatible: both say the same. */
  private def fit(one: ShuffleSpec, other: ShuffleSpec): Boolean = {
    assert(one.isCompatibleWith(other) == other.isCompatibleWith(one))
    one.isCompatibleWith(other)
  }

  test("It is compatible with a side of an equal table, and with no other.") {
    val left = spec(routed(table, a), a)
    assert(fit(left, spec(shuffled(RoutingTable.fromBytes(table.toBytes), x), x)))
    assert(!fit(left, spec(shuffled(moved, x), x)), "other owners")
    assert(!fit(left, spec(shuffled(table.moved(Nil, 1, 4), x), x)), "another number")
    assert(!fit(left, spec(HashPartitioning(Seq(x), 4), x)), "Spark's own hash")
    assert(!fit(left, spec(RangePartitioning(Seq(SortOrder(x, Ascending)), 4), x)))
  }

  test("Of two sides that come from batches, one is shuffled.") {
    val left = spec(routed(table, a), a)
    assert(!fit(left, spec(routed(table, x), x)) && fit(left, left))
    assert(fit(spec(shuffled(table, a), a), spec(shuffled(table, x), x)))
    val renamed = routed(table, a).transform { case k: AttributeReference if k == a => x }
    assert(!fit(left, spec(renamed.asInstanceOf[Partitioning], x)))
    assert(!fit(left, spec(routed(table, x).copy(numPartitions = 4), x)))
  }

  test("The keys have to be at the same places of the join.") {
    def both(left: Seq[Expression], right: Seq[Expression]) =
      fit(spec(routed(table, left: _*), a, b, b), spec(shuffled(table, right: _*), x, y, z))
    assert(both(Seq(a, b), Seq(x, y)))
    assert(both(Seq(a, b), Seq(x, z)), "b is joined with y and with z")
    assert(both(Seq(b, a), Seq(y, x)))
    assert(!both(Seq(a, b), Seq(y, x)), "turned")
    assert(!both(Seq(a), Seq(x, y)), "fewer keys")
    assert(!fit(spec(routed(table, a), a), spec(shuffled(table, x), x, y)), "another join")
  }

  test("One worker is a single partition; more are not.") {
    val one = RoutingTable.roundRobin(64, 1)
    assert(fit(spec(routed(one, a), a), SinglePartitionShuffleSpec))
    assert(!fit(spec(routed(table, a), a), SinglePartitionShuffleSpec))
  }

  test("Of several partitionings of one side, one that fits is enough.") {
    val several = PartitioningCollection(Seq(HashPartitioning(Seq(a), 4), routed(table, b)))
    val left = several.createShuffleSpec(ClusteredDistribution(Seq(a, b)))
    assert(fit(left, spec(shuffled(table, y), x, y)))
    assert(!fit(left, spec(shuffled(table, x), x, y)))
    assert(!fit(left, spec(shuffled(moved, y), x, y)))
  }

  test("It shuffles another side by the same table, on the keys that stand at the same places.") {
    def created(keys: Seq[Expression], clustering: Seq[Expression]) =
      spec(routed(table, keys: _*), clustering: _*).createPartitioning(Seq(x, y, z))
    assert(created(Seq(a, b, c), Seq(a, b, c)) == routed(table, x, y, z))
    assert(created(Seq(c, a), Seq(a, b, c)) == routed(table, z, x))
    assert(created(Seq(b), Seq(a, b, b)) == routed(table, y))
    for (keys <- Seq(Seq(a, b, c), Seq(c, a), Seq(b))) {
      val left = spec(routed(table, keys: _*), a, b, c)
      assert(fit(left, spec(left.createPartitioning(Seq(x, y, z)), x, y, z)))
    }
  }

  test("It shuffles no other side by some of the keys, if Spark is told to use all of them.") {
    def canCreate(keys: Expression*) = spec(routed(table, keys: _*), a, b).canCreatePartitioning
    def told(all: Boolean)(body: => Unit): Unit = {
      val conf = new SQLConf
      conf.setConf(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION, all)
      SQLConf.withExistingConf(conf)(body)
    }
    told(all = true) {
      assert(canCreate(a, b))
      assert(!canCreate(a) && !canCreate(b, a))
    }
    told(all = false)(assert(canCreate(a, b) && canCreate(a) && canCreate(b, a)))
    told(all = false)(assert(!canCreate(c), "a key that is none of the join's"))
  }

  test("A coalesced read of a routed exchange keeps the table, under new names too.") {
    def coalesced(of: HashPartitioning, boundaries: CoalescedBoundary*) =
      CoalescedHashPartitioning(of, boundaries)
    val halves = Seq(CoalescedBoundary(0, 2), CoalescedBoundary(2, 4))
    val left = coalesced(shuffled(table, a), halves: _*)
    val renamed = left.transform { case k: AttributeReference if k == a => x }
    assert(renamed == coalesced(routed(table, x), halves: _*))
    val right = spec(renamed.asInstanceOf[Partitioning], x)
    assert(fit(spec(left, a), right))
    assert(!fit(spec(coalesced(HashPartitioning(Seq(a), 4), halves: _*), a), right))
    assert(!fit(spec(coalesced(shuffled(moved, a), halves: _*), a), right))
    assert(!fit(spec(shuffled(table, a), a), right), "whole and coalesced")
  }

  test("A copy keeps the table; one with another number of partitions is Spark's own.") {
    assert(routed(table, a).copy(expressions = Seq(x)) == routed(table, x))
    assert(routed(table, a).copy(numPartitions = 3) == HashPartitioning(Seq(a), 3))
  }

  test("A user's repartition on the same keys is not the routed exchange.") {
    assert(!routed(table, a).semanticEquals(HashPartitioning(Seq(a), 4)))
    assert(!HashPartitioning(Seq(a), 4).semanticEquals(routed(table, a)))
  }
}
