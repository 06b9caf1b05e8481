// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import java.nio.ByteBuffer

import scala.util.Random

import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.plan.{Bins, Move, RoutingTable}

/** The partitioning of a routed exchange sends a key where its bin is, and is in all else the hash
  * partitioning it replaces.
  */
class RoutedPartitioningSuite extends AnyFunSuite {
  private val bins = 64
  private val table = RoutingTable.tabulate(bins, 5, 3)(bin => (bin * 7 + 3) % 5)
  private val key = AttributeReference("k", LongType)()
  private val other = AttributeReference("o", StringType)()

  private def bound(types: DataType*): Seq[Expression] = types.zipWithIndex.map { case (t, i) =>
    BoundReference(i, t, nullable = true)
  }

  /** Whole-stage and projection code. */
  private def compiled(expression: Expression, row: InternalRow): Int =
    UnsafeProjection.create(Seq(expression))(row).getInt(0)
  private def interpreted(expression: Expression, row: InternalRow): Int =
    expression.eval(row).asInstanceOf[Int]

  private val randomRows = {
    val random = new Random(11)
    Seq.fill(2000)(
      InternalRow(
        if (random.nextInt(20) == 0) null else random.nextLong(),
        UTF8String.fromString(random.nextString(3))
      )
    )
  }

  test("A row goes to the worker that owns the bin of its key's hash.") {
    val keys = bound(LongType, StringType)
    val worker = new RoutedPartitioning(keys, table).partitionIdExpression
    val hash = new Murmur3Hash(keys)
    randomRows.foreach(row =>
      assert(
        interpreted(worker, row) == table.workerOf(Bins.of(hash.eval(row).asInstanceOf[Int], bins))
      )
    )
    assert(randomRows.map(interpreted(worker, _)).toSet == (0 until 5).toSet)
  }

  test(
    "With one worker a bin, in order, and as many bins as partitions, it is Spark's own " +
      "partitioning."
  ) {
    val same = new RoutedPartitioning(
      bound(LongType, StringType),
      RoutingTable.roundRobin(bins, bins)
    ).partitionIdExpression
    val sparks = HashPartitioning(bound(LongType, StringType), bins).partitionIdExpression
    randomRows.foreach(row => assert(interpreted(same, row) == interpreted(sparks, row)))
  }

  test("Generated code and the interpreter send every row to the same worker.") {
    val worker = new RoutedPartitioning(bound(LongType, StringType), table).partitionIdExpression
    val projection = UnsafeProjection.create(Seq(worker))
    randomRows.foreach(row => assert(projection(row).getInt(0) == interpreted(worker, row)))
  }

  test("Generated code does not change with the table, so nothing is compiled anew after a move.") {
    def code(of: RoutingTable) = {
      val context = new codegen.CodegenContext
      new RoutedPartitioning(bound(LongType), of).partitionIdExpression
        .genCode(context)
        .code
        .toString
    }
    assert(code(table) == code(table.moved(Seq(Move(0, 6)), 4, 7)))
  }

  test("Strings that a collation holds to be equal go to one worker.") {
    for (collation <- Seq("UTF8_LCASE", "UNICODE_CI")) {
      val worker = new RoutedPartitioning(bound(StringType(collation)), table).partitionIdExpression
      val words = Seq(
        "spark",
        "stream",
        "state",
        "bin",
        "worker",
        "hash",
        "key",
        "move",
        "plan",
        "step",
        "é",
        "straße"
      )
      words.foreach { word =>
        val lower = InternalRow(UTF8String.fromString(word))
        val upper = InternalRow(
          UTF8String.fromString(word.toUpperCase(java.util.Locale.ROOT).replace("SS", "ß"))
        )
        assert(interpreted(worker, lower) == interpreted(worker, upper), s"$word under $collation")
        assert(compiled(worker, lower) == interpreted(worker, lower))
        assert(compiled(worker, upper) == interpreted(worker, upper))
      }
      assert(
        words.map(w => interpreted(worker, InternalRow(UTF8String.fromString(w)))).toSet.size > 1
      )
    }
  }

  test(
    "Strings that a binary-stable collation holds apart are hashed by their bytes, as Spark's " +
      "exchange does."
  ) {
    val worker =
      new RoutedPartitioning(bound(StringType("UTF8_BINARY")), table).partitionIdExpression
    val hash = new Murmur3Hash(bound(StringType))
    Seq("a", "A", "ä", "").map(s => InternalRow(UTF8String.fromString(s))).foreach { row =>
      assert(
        interpreted(worker, row) == table.workerOf(Bins.of(hash.eval(row).asInstanceOf[Int], bins))
      )
    }
  }

  test(
    "Two are equal if keys and tables are, so exchanges of different tables are never reused for " +
      "each other."
  ) {
    def routed(t: RoutingTable) = new RoutedPartitioning(Seq(key), t)
    val copy = RoutingTable.fromBytes(table.toBytes)
    assert(routed(table) == routed(copy) && routed(table).hashCode == routed(copy).hashCode)
    assert(
      routed(table) != routed(table.moved(Seq(Move(0, 1), Move(1, 2)), 3, 5)),
      "the same number and other owners"
    )
    assert(routed(table) != routed(table.moved(Nil, 4, 5)), "another number")
    assert(routed(table) != new RoutedPartitioning(Seq(other), table))
    assert(
      routed(table) != HashPartitioning(Seq(key), 5) && HashPartitioning(Seq(key), 5) != routed(
        table
      )
    )
    assert(routed(table).canonicalized == routed(copy).canonicalized)
    assert(routed(table).canonicalized != routed(table.moved(Nil, 4, 5)).canonicalized)
  }

  test(
    "It is what an aggregate and a join on its keys ask for, not the hash that Spark's own state " +
      "lies by."
  ) {
    val routed = new RoutedPartitioning(Seq(key), table)
    assert(!routed.satisfies(StatefulOpClusteredDistribution(Seq(key), 5)))
    assert(routed.satisfies(ClusteredDistribution(Seq(key, other))))
    assert(!routed.satisfies(ClusteredDistribution(Seq(other))))
    assert(routed.numPartitions == 5)
  }

  test("A copy of its tree keeps the table, and where its rows come from.") {
    val renamed = AttributeReference("renamed", LongType)()
    for (isOfBatch <- Seq(true, false)) {
      val routed = new RoutedPartitioning(Seq(key), table, isOfBatch)
      val copies = Seq(
        routed.transform { case a: AttributeReference =>
          renamed.withExprId(a.exprId).withName("renamed")
        },
        routed.makeCopy(Array(Seq(renamed), table, Boolean.box(isOfBatch))),
        routed.clone(),
        routed.copy(expressions = Seq(renamed))
      )
      for (copy <- copies.map(_.asInstanceOf[RoutedPartitioning]))
        assert((copy.table eq table) && copy.isOfBatch == isOfBatch)
    }
  }

  test("Plans print the table's number and size, never its content.") {
    val large = new RoutedPartitioning(Seq(key), RoutingTable.roundRobin(Bins.Max, 500, 12))
    assert(large.toString.length < 80 && large.toString.contains("table 12, 500 workers"))
    assert(large.partitionIdExpression.toString.length < 120)
    assert(large.partitionIdExpression.sql.length < 120)
    assert(large.treeString.length < 200)
  }

  test("It reaches an executor's tasks whole.") {
    val serializer = new JavaSerializer(new org.apache.spark.SparkConf).newInstance()
    val sent = serializer.deserialize[Expression](
      serializer.serialize(
        new RoutedPartitioning(bound(LongType), table).partitionIdExpression
      ): ByteBuffer
    )
    randomRows.foreach(row =>
      assert(
        interpreted(sent, row) == interpreted(
          new RoutedPartitioning(bound(LongType), table).partitionIdExpression,
          row
        )
      )
    )
  }

  test("Another shape of Spark's partition id is an error that names it.") {
    val error = intercept[IllegalStateException](PartitionHash.of(new Murmur3Hash(bound(LongType))))
    assert(error.getMessage.contains("this jar does not fit this Spark version"))
  }
}
