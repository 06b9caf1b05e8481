// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import java.util.Locale

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.placement.{Member, Seat}
import io.megaphone.protocol.PlanStatus
import io.megaphone.runtime.{Drain, Held, Relocation}
import io.megaphone.view.SomeQuery.{commit, executorOf, fresh, moving, sized}

/** Names, types and sentences of all tables. */
class TablesSuite extends AnyFunSuite {

  test("the tables have different names, and so have the columns of a table") {
    val names = Tables.all.map(_.name)
    assert(names == names.distinct)
    Tables.all.foreach { table =>
      val columns = table.columns.map(_.name)
      assert(columns == columns.distinct && columns.forall(_.matches("[a-z]+(_[a-z]+)*")))
    }
  }

  test("every table and every column has a sentence") {
    val docs = Tables.all.flatMap(t => t.doc +: t.columns.map(_.doc))
    assert(docs.filterNot(_.matches("[A-Z].*[^.]\\.")).isEmpty)
  }

  test("a column is of the row's field of its name, of its kind, an Option if it is nullable") {
    val arrived = commit(0, "left", 0, 1)
    arrived.arrivals.binsIn = 6
    arrived.arrivals.binsRelabelled = 1
    arrived.arrivals.binsFromPeer = 2
    arrived.arrivals.binsFromCheckpoint = 3
    arrived.arrivals.bytesFromPeer = 4
    arrived.arrivals.bytesFromCheckpoint = 5
    arrived.arrivals.subBins = 6
    arrived.arrivals.questions = 7
    val seen = Seq(
      check(QueryRow.table, Vector(QueryRow.of("id", Some("name"), moving, Map.empty))),
      check(QueryRow.table, Vector(QueryRow.of("id", None, fresh, Map.empty))),
      check(WorkerRow.table, WorkerRow.of(moving, executorOf, Map(arrived.worker -> arrived))),
      check(BinRow.table, BinRow.of(moving, executorOf, sized)),
      check(PlanRow.table, PlanRow.of(moving, None)),
      check(StepRow.table, StepRow.of(moving, SomeQuery.plan)),
      check(MigrationRow.table, MigrationRow.of(Vector(arrived))),
      check(
        ExecutorRow.table,
        ExecutorRow.of(Vector(Member("a", "h") -> Held(1, 2, 3, 4, 5, 6)), Map.empty, Map.empty)
      ),
      check(
        RelocationRow.table,
        Vector(going, failed).map(RelocationRow.of(_, _ => Some(2), (_, _) => Some(1)))
      ),
      check(
        DrainRow.table,
        Vector(
          DrainRow.of(Drain("1", Drain.Asked, Drain.Draining, 2, 3, Some("Why."), release = true))
        )
      )
    )
    assert(seen.toSet == Tables.all.map(_.name).toSet)
  }

  private val going =
    Relocation(1, Seat(0, 1), "1", "2", Relocation.Drain, since = 3, taken = Some(4))
  private val failed = going.copy(end = Some(Relocation.Failed("Why.")))

  private def check[A <: Product](table: Table[A], rows: Vector[A]): String = {
    assert(rows.nonEmpty)
    for (row <- rows) {
      assert(table.columns.map(_.name) == row.productElementNames.map(inSnakeCase).toVector)
      val fields = row.productIterator.map {
        case status: PlanStatus => status.name
        case field => field
      }
      assert(table.columns.map(_.value(row)) == fields.toVector)
    }
    for (row <- rows; column <- table.columns)
      column.value(row) match {
        case option: Option[_] =>
          assert(column.isNullable && option.forall(isOf(_, column.kind)), column)
        case value => assert(!column.isNullable && isOf(value, column.kind), column)
      }
    table.name
  }

  private def inSnakeCase(name: String): String =
    name.replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT)

  private def isOf(value: Any, kind: Kind): Boolean = (value, kind) match {
    case (_: Int, Int32) | (_: Long, Int64) | (_: String, Text) | (_: Boolean, Bool) => true
    case (values: Seq[_], Int32List) => values.forall(_.isInstanceOf[Int])
    case (values: Seq[_], Int64List) => values.forall(_.isInstanceOf[Long])
    case _ => false
  }
}
