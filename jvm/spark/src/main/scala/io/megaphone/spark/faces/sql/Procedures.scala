// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import org.apache.spark.sql.types.{BooleanType, DataType, DoubleType, LongType, MapType, StringType}

import io.megaphone.errors.PlanRefusedException
import io.megaphone.plan.{Move, Strategy, TransferMode}
import io.megaphone.runtime.Relocation
import io.megaphone.spark.driver.{
  ApplicationDriver, Placements, PlanOptions, Plans, Queries, QueryDriver, TableRows
}
import io.megaphone.spark.faces.json.StepsJson
import io.megaphone.spark.faces.sql.Procedure.Given
import io.megaphone.spark.faces.ui.Picture
import io.megaphone.view.{Column, DrainRow, Int32, Int64, PlanRow, RelocationRow, Table, Text}

/** The catalog's procedures. What they have in common:
  *
  *   - `query` is the id of a query, which stays over restarts, its run id or its name. NULL is the
  *     one query with state in bins that runs.
  *   - `strategy`, `mode` and `operator` are as in Python: how moves are grouped into steps, when
  *     the bytes travel, and the one operator to move. NULL is the configured one, or all.
  *   - What makes or steers a plan returns its row of the table `plans`.
  */
private[sql] object Procedures {
  private val Query = optional("query", StringType)
  private val How =
    Vector(Query, optional("strategy", StringType), optional("mode", StringType)) :+
      optional("operator", LongType)
  private val Moves = MapType(LongType, LongType)
  private val PlanId = Argument("plan", StringType, None)
  private val Executor = Argument("executor", StringType, None)
  private type OfPlan = (QueryDriver, PlanRow)
  private type OfRelocation = (QueryDriver, RelocationRow)

  /** All of them.
    *
    * @param catalog
    *   the name that the catalog has
    */
  def all(catalog: String): Vector[Procedure[_]] =
    Verbs.map(new Submission(_)) ++
      Vector(Preview, Cancel, Wait, Spread, Place, CancelRelocations, DrainExecutor, Undrain) ++
      Vector(RequestExecutors, Drawing, new About(catalog))

  /** How a procedure makes a plan of its own argument. `made` is None if that is NULL. */
  private final case class Verb(name: String, summary: String, argument: String, of: DataType)(
      val made: Given => Option[(QueryDriver, PlanOptions) => Plans.Made]
  )

  private val Verbs = Vector(
    Verb(
      "rescale",
      "Spreads the state of a running query evenly over a number of workers, with the fewest " +
        "moves.",
      "workers",
      LongType
    )(_.int("workers").map(workers => Plans.rescale(_, workers, _))),
    Verb(
      "move",
      "Moves bins to workers that are there already, given as a map of bin to worker: map(17, 3).",
      "moves",
      Moves
    )(_.pairs("moves").map { pairs =>
      val moves = pairs.map { case (bin, worker) => Move(bin, worker) }
      Plans.move(_, moves, _)
    }),
    Verb(
      "submit",
      "Submits steps made by hand, given as JSON: " +
        """'[{"moves": {"17": 3}, "workers": 8}]'. A step may leave out its workers, or its """ +
        "moves.",
      "steps",
      StringType
    )(_.text("steps").map { text =>
      val steps = StepsJson.read(text)
      Plans.submit(_, steps, _)
    })
  )

  private final class Submission(verb: Verb)
      extends Procedure[OfPlan](
        verb.name,
        verb.summary,
        Argument(verb.argument, verb.of, None) +: How,
        SystemTables.plans
      ) {
    override protected def run(in: Given): Seq[OfPlan] = {
      val made = in.required(verb.argument, verb.made(in))
      val query = queryOf(in)
      Vector(query -> TableRows.plan(query, query.submit(made(query, optionsOf(in)))))
    }
  }

  /** A move that a plan would make. */
  private final case class PlannedMove(
      operator: Long,
      step: Int,
      bin: Int,
      from: Int,
      to: Int,
      bytes: Option[Long]
  )

  private object Preview
      extends Procedure[PlannedMove](
        "plan",
        "Shows what a plan would do, and does nothing: that of rescale, move or submit, by the " +
          "one of workers, moves and steps that is given.",
        Verbs.map(verb => optional(verb.argument, verb.of)) ++ How,
        Table(
          "planned moves",
          "A row for each move.",
          Vector(
            Column.ofGroup(_.operator),
            Column.of("step", Int32, "Place of the step in the plan, from 0.", _.step),
            Column.of("bin", Int32, "The bin.", _.bin),
            Column.of("from_worker", Int32, "The worker that owns it before the step.", _.from),
            Column.of("to_worker", Int32, "The worker that owns it after the step.", _.to),
            Column.optional("bytes", Int64, "Bytes of its live records, if known.", _.bytes)
          )
        )
      ) {
    override protected def run(in: Given): Seq[PlannedMove] = {
      val (query, options) = (queryOf(in), optionsOf(in))
      val asked = Verbs.flatMap(_.made(in)).map(_(query, options))
      if (asked.size != 1)
        throw PlanRefusedException.invalidArgument(
          "workers, moves or steps",
          s"are ${asked.size} of the three, but the plan is that of exactly one; give one"
        )
      val state = query.state
      for {
        (group, steps) <- asked.head(state).steps.toVector.sortBy(_._1)
        tables = steps.scanLeft(state.currentTable(group)) { (table, step) =>
          table.moved(step.moves, table.number, step.workers)
        }
        sizes = query.commits.sizes(state.group(group).stores)
        ((step, before), index) <- steps.zip(tables).zipWithIndex
        Move(bin, target) <- step.moves
        bytes = sizes(bin).map(_.bytes)
      } yield PlannedMove(group, index, bin, before.workerOf(bin), target, bytes)
    }
  }

  private object Cancel
      extends Procedure[OfPlan](
        "cancel",
        "Drops the steps of a plan that have not taken effect. Does nothing if the plan has ended.",
        Vector(PlanId, Query),
        SystemTables.plans
      ) {
    override protected def run(in: Given): Seq[OfPlan] = {
      val (query, id) = (queryOf(in), in.required("plan", in.text("plan")))
      query.cancel(id)
      Vector(query -> TableRows.plan(query, Plans.find(query.state, id)))
    }
  }

  private object Wait
      extends Procedure[OfPlan](
        "wait",
        "Returns when a plan is over, or when so many seconds have passed: from 0 to " +
          s"${PlanWait.SecondsMax}.",
        Vector(PlanId, Argument("timeout_s", LongType, Some("10")), Query),
        SystemTables.plans
      ) {
    override protected def run(in: Given): Seq[OfPlan] = {
      val (query, id) = (queryOf(in), in.required("plan", in.text("plan")))
      val seconds = in.required("timeout_s", in.int("timeout_s"))
      Vector(query -> PlanWait.until(query, id, seconds))
    }
  }

  private object Spread
      extends Procedure[OfRelocation](
        "spread",
        "Evens the load of the executors out: takes whole workers to others, once their state is " +
          "there. Returns the relocations that have begun.",
        Vector(optional("tolerance", DoubleType), Query),
        SystemTables.relocations
      ) {
    override protected def run(in: Given): Seq[OfRelocation] = {
      val query = queryOf(in)
      begun(query, Placements.spread(query, in.double("tolerance")))
    }
  }

  private object Place
      extends Procedure[OfRelocation](
        "place",
        "Takes workers to executors, once their state is there, given as a map of worker to " +
          "executor: map(0, '2'). Returns the relocations that have begun.",
        Vector(Argument("workers", MapType(LongType, StringType), None), Query) :+
          optional("operator", LongType),
        SystemTables.relocations
      ) {
    override protected def run(in: Given): Seq[OfRelocation] = {
      val query = queryOf(in)
      val wanted = in.required("workers", in.texts("workers"))
      begun(query, Placements.place(query, wanted, in.long("operator")))
    }
  }

  private object CancelRelocations
      extends Procedure[OfRelocation](
        "cancel_relocation",
        "Lets a worker stay where it is, if no batch has taken it elsewhere yet.",
        Vector(Argument("relocation", LongType, None), Query),
        SystemTables.relocations
      ) {
    override protected def run(in: Given): Seq[OfRelocation] = {
      val query = queryOf(in)
      val id = in.required("relocation", in.long("relocation"))
      Placements.cancel(query, Vector(id))
      begun(query, query.footprint.relocations.filter(_.id == id))
    }
  }

  private object DrainExecutor
      extends Procedure[DrainRow](
        "drain",
        "Empties an executor of the state of all queries. If a number of seconds is given, what " +
          "is left there after that is read from the checkpoint. The executor goes on, unless it " +
          "is to be released: then it is ended once it is empty, and no other is started in its " +
          "place.",
        Vector(
          Executor,
          Argument("timeout_s", LongType, Some("0")),
          Argument("release", BooleanType, Some("false"))
        ),
        DrainRow.table
      ) {
    override protected def run(in: Given): Seq[DrainRow] = {
      val executor = in.required("executor", in.text("executor"))
      val seconds = in.long("timeout_s").filter(_ != 0)
      val timeoutMs = seconds.map(_.max(-1).min(Long.MaxValue / 1000) * 1000)
      val release = in.boolean("release").getOrElse(false)
      Vector(DrainRow.of(Placements.drain(Queries.application, executor, timeoutMs, release)))
    }
  }

  private object Undrain
      extends Procedure[DrainRow](
        "undrain",
        "Lets an executor keep its workers after all.",
        Vector(Executor),
        DrainRow.table
      ) {
    override protected def run(in: Given): Seq[DrainRow] = {
      val executor = in.required("executor", in.text("executor"))
      Vector(DrainRow.of(Placements.undrain(Queries.application, executor)))
    }
  }

  private object RequestExecutors
      extends Procedure[Placements.Executors](
        "request_executors",
        "Asks the cluster manager for a number of executors in all, at least as many as there " +
          "are. It starts them when it has room.",
        Vector(Argument("total", LongType, None)),
        Table(
          "requests",
          "One row.",
          Vector(
            Column.of("asked", Int32, "How many executors were asked for.", _.asked),
            Column.of("active", Int32, "How many take state now.", _.active)
          )
        )
      ) {
    override protected def run(in: Given): Seq[Placements.Executors] =
      Vector(Placements.request(Queries.application, in.required("total", in.int("total"))))
  }

  private def begun(query: QueryDriver, some: Vector[Relocation]): Seq[OfRelocation] =
    TableRows.relocations(query, some).map(query -> _)

  private object Drawing
      extends Procedure[String](
        "picture",
        "Draws where the state of a query is, as HTML: its bins by executor and worker, coloured " +
          "by size.",
        Vector(Query),
        Table(
          "pictures",
          "One row.",
          Vector(Column.of("html", Text, "The drawing, with all that it needs.", identity))
        )
      ) {
    override protected def run(in: Given): Seq[String] = Vector(Picture.of(queryOf(in)))
  }

  private final case class Versions(
      plugin: String,
      spark: String,
      catalog: String,
      query: Option[QueryDriver]
  )

  private final class About(catalog: String)
      extends Procedure[Versions](
        "about",
        "Shows the version of the plugin, that of Spark, the name of the catalog, and which " +
          "query is meant by what is given, if one is.",
        Vector(Query),
        Table[Versions](
          "versions",
          "One row.",
          Vector[Column[Versions]](
            Column.of("version", Text, "The version of the plugin's jar.", _.plugin),
            Column.of("spark_version", Text, "The version of Spark.", _.spark),
            Column.of("catalog", Text, "The name of this catalog.", _.catalog)
          ) ++ SystemTables.OfQuery.map { c =>
            c.copy[Versions](isNullable = true, value = _.query.map(c.value))
          }
        )
      ) {
    override protected def run(in: Given): Seq[Versions] = {
      val query = in.text("query").map(name => Queries.named(Some(name)))
      val spark = Queries.application.context.version
      Vector(Versions(ApplicationDriver.version, spark, catalog, query))
    }
  }

  private def optional(name: String, dataType: DataType): Argument =
    Argument(name, dataType, Some("NULL"))

  private def queryOf(in: Given): QueryDriver = Queries.named(in.text("query"))

  private def optionsOf(in: Given): PlanOptions = PlanOptions(
    in.text("strategy").map(Strategy.parse),
    in.text("mode").map(TransferMode.parse),
    in.long("operator")
  )
}
