// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

import scala.collection.mutable

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.LocalTableScanExec
import org.apache.spark.sql.types.{IntegerType, LongType, StringType}
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.errors.Conditions
import io.megaphone.spark.query.KeyedSession
import io.megaphone.view.Tables

/** The catalog `megaphone`: its procedures and tables, and what it says to wrong calls. */
class SqlSuite extends KeyedSession {
  private def sql(text: String): DataFrame = spark.sql(text)
  private def rows(text: String): Seq[Row] = sql(text).collect().toSeq

  /** A query of 3 workers that has run a batch. */
  private def withQuery(name: String = "counts")(body: (Running, Source) => Unit): Unit = {
    val source = new Source
    val writer = source.stream
      .groupBy("k")
      .count()
      .writeStream
      .outputMode("update")
      .queryName(name)
      .option("checkpointLocation", folder("checkpoint").toString)
      .format("noop")
    val running = new Running(writer.start(), mutable.Map.empty)
    source.feed()
    running.query.processAllAvailable()
    try body(running, source)
    finally running.stop()
  }

  /** The condition and the SQLSTATE of a statement that is refused, and its sentence. */
  private def refusal(text: String): (String, String, String) = {
    val refused = intercept[Exception with SparkThrowable](rows(text))
    (refused.getCondition, refused.getSqlState, refused.getMessage)
  }

  private def isRefused(text: String, condition: String, sentence: String): Unit = {
    val (found, sqlState, message) = refusal(text)
    val known = Conditions.all.find(c => s"MEGAPHONE_${c.name}" == found)
    assert(found == s"MEGAPHONE_$condition", text)
    assert(known.map(_.sqlState).contains(sqlState), text)
    assert(message.contains(sentence), text)
  }

  /** Feeds batches until a plan is over; its row. */
  private def ended(running: Running, source: Source, plan: String): Row = {
    var batches = 0
    def row = rows(s"CALL megaphone.system.wait('$plan', 0)").head
    while (row.getAs[String]("status") != "done") {
      assert(batches < 60, s"The plan is $row after $batches batches.")
      source.feed()
      running.query.processAllAvailable()
      batches += 1
    }
    row
  }

  test("A rescale by SQL moves the state, and every table shows it.") {
    withQuery() { (running, source) =>
      val plan = rows("CALL megaphone.system.rescale(5, strategy => 'all-at-once')").head
      assert(plan.getAs[String]("query_name") == "counts")
      assert(plan.getAs[String]("status") == "submitted")
      val id = plan.getAs[String]("id")
      assert(ended(running, source, id).getAs[Int]("moves_done") > 0)
      assert(rows("SELECT * FROM megaphone.system.workers").size == 5)
      val bins = rows("""SELECT worker, count(*) FROM megaphone.system.bins
        WHERE query_name = 'counts' GROUP BY worker ORDER BY worker""")
      assert(bins.map(_.getLong(1)).sum == 1024 && bins.map(_.getInt(0)) == (0 until 5))
      val joined = rows("""SELECT s.bins, p.moves FROM megaphone.system.plans p
        JOIN megaphone.system.steps s ON s.plan = p.id AND s.run_id = p.run_id""")
      assert(joined.map(_.getSeq[Int](0).size).sum == joined.head.getInt(1))
      eventually(timeout(60.seconds)) { // executors tell what they have done as they can
        assert(rows("SELECT * FROM megaphone.system.migrations WHERE bins_in > 0").nonEmpty)
      }
      val query = rows("SELECT * FROM megaphone.system.queries").head
      assert(query.getAs[String]("run_id") == running.query.runId.toString)
      assert(query.getAs[Int]("workers") == 5 && query.getAs[String]("open_plan") == null)
      assert(sql("SELECT * FROM megaphone.system.executors").columns.contains("replicas"))
    }
  }

  test("Moves, steps by hand, a preview and a cancel.") {
    withQuery() { (running, source) =>
      val id = running.query.id
      val worker = rows("SELECT worker FROM megaphone.system.bins WHERE bin = 17").head.getInt(0)
      val other = (worker + 1) % 3
      def told = rows("SELECT bytes FROM megaphone.system.bins WHERE bin = 17").head
      eventually(timeout(60.seconds))(assert(!told.isNullAt(0)))
      val bytes = told.getLong(0)
      val preview = rows(s"CALL megaphone.system.plan(moves => map(17, $other), query => '$id')")
      assert(preview == Seq(Row(0L, 0, 17, worker, other, bytes)))
      assert(rows("SELECT * FROM megaphone.system.plans").isEmpty, "a preview does nothing")
      val made = rows("CALL megaphone.system.plan(4)")
      assert(
        made.map(_.getInt(4)).toSet == Set(3) && made.map(_.getInt(2)).distinct == made.map(
          _.getInt(2)
        )
      )
      val moved = rows(s"CALL megaphone.system.move(map(17, $other), 'counts')").head
      ended(running, source, moved.getAs[String]("id"))
      assert(rows("SELECT worker FROM megaphone.system.bins WHERE bin = 17") == Seq(Row(other)))
      val steps = s"""'[{"moves": {"17": $worker}}, {"workers": 4, "moves": {"18": 3}}]'"""
      assert(rows(s"CALL megaphone.system.plan(steps => $steps)").map(_.getInt(1)) == Seq(0, 1))
      val byHand = rows(s"CALL megaphone.system.submit($steps)").head
      assert(byHand.getAs[Int]("steps") == 2)
      val cancelled =
        rows(s"CALL megaphone.system.cancel('${byHand.getAs[String]("id")}')").head
      assert(cancelled.getAs[String]("status") == "cancelled")
      val waited = rows(s"CALL megaphone.system.wait('${byHand.getAs[String]("id")}')").head
      assert(waited.getAs[String]("status") == "cancelled")
    }
  }

  test("A call runs once, however often its rows are read, and EXPLAIN does not run it.") {
    withQuery() { (_, _) =>
      sql("EXPLAIN CALL megaphone.system.rescale(5)").collect()
      assert(rows("SELECT * FROM megaphone.system.plans").isEmpty)
      val called = sql("CALL megaphone.system.rescale(5)")
      assert(called.collect().toSeq == called.collect().toSeq && called.count() == 1)
      assert(rows("SELECT * FROM megaphone.system.plans").size == 1)
    }
  }

  test("Arguments by name, by position, as expressions, by parameters and variables.") {
    withQuery() { (running, _) =>
      def isFine(call: => DataFrame): Unit = {
        val id = call.collect().head.getAs[String]("id")
        rows(s"CALL megaphone.system.cancel('$id')")
        ()
      }
      isFine(sql("CALL megaphone.system.rescale(2 + 3)"))
      isFine(sql("CALL megaphone.system.rescale(2 + 3L)"))
      isFine(sql("CALL megaphone.system.rescale(CAST(2 * 2.5 AS INT))"))
      isFine(sql("CALL megaphone.system.rescale(5, query => concat('count', 's'))"))
      isFine(sql("CALL megaphone.system.rescale(mode => 'DIRECT', workers => 5)"))
      isFine(sql("CALL megaphone.system.submit('[{\"workers\": 5}]')"))
      val workers = rows("SELECT bin, worker FROM megaphone.system.bins WHERE bin IN (17, 18)")
      val others = workers.map(r => s"${r.getInt(0)}, ${(r.getInt(1) + 1) % 3}L").mkString(", ")
      isFine(sql(s"CALL megaphone.system.move(map($others))"))
      isFine(sql(s"CALL megaphone.system.rescale(5, '${running.query.id}', 'batched(9)', NULL, 0)"))
      isFine(sql(s"CALL megaphone.system.rescale(5, concat('${running.query.runId}', ''))"))
      isFine(spark.sql("CALL megaphone.system.rescale(:n)", Map("n" -> 5)))
      isFine(spark.sql("CALL megaphone.system.rescale(?)", Array(5)))
      sql("DECLARE OR REPLACE VARIABLE n INT DEFAULT 5")
      isFine(sql("CALL megaphone.system.rescale(n)"))
      isFine(sql("EXECUTE IMMEDIATE 'CALL megaphone.SYSTEM.Rescale(5)'"))
      val before = spark.catalog.currentCatalog()
      sql("USE megaphone")
      try isFine(sql("CALL rescale(5)"))
      finally spark.catalog.setCurrentCatalog(before)
      isFine(spark.newSession().sql("CALL megaphone.system.rescale(5)"))
    }
  }

  test("A call from a sink's function reaches the query that calls.") {
    val source = new Source
    @volatile var plan: Row = null
    val call: (DataFrame, Long) => Unit = (batch, id) => {
      batch.collect()
      if (id == 1) plan = batch.sparkSession.sql("CALL megaphone.system.rescale(5)").head()
    }
    val query = source.stream
      .groupBy("k")
      .count()
      .writeStream
      .outputMode("update")
      .option("checkpointLocation", folder("checkpoint").toString)
      .foreachBatch(call)
      .start()
    for (_ <- 0 to 1) { source.feed(); query.processAllAvailable() }
    assert(plan.getAs[String]("run_id") == query.runId.toString)
    query.stop()
  }

  test("The catalog lists what it has, and says what each thing is.") {
    val tables = rows("SHOW TABLES IN megaphone.system").map(_.getString(1)).toSet
    assert(tables == Tables.all.map(_.name).toSet)
    for (table <- Tables.all) {
      val described = rows(s"DESCRIBE TABLE megaphone.system.${table.name}")
      val comments = described.map(r => r.getString(0) -> r.getString(2)).toMap
      for (c <- table.columns) assert(comments.get(c.name).contains(c.doc), table.name)
    }
    assert(rows("SHOW TABLES IN megaphone").size == tables.size)
    assert(rows("SHOW PROCEDURES IN megaphone").nonEmpty)
    val procedures =
      rows("SHOW PROCEDURES IN megaphone.system").map(_.getAs[String]("procedure_name"))
    val expected = Set("rescale", "move", "submit", "plan", "cancel", "wait", "picture", "about") ++
      Set("spread", "place", "cancel_relocation", "drain", "undrain", "request_executors")
    assert(procedures.toSet == expected)
    for (name <- expected) {
      val text = rows(s"DESCRIBE PROCEDURE megaphone.system.$name").mkString
      assert(text.contains("Arguments: "), name)
    }
    assert(rows("SHOW NAMESPACES IN megaphone") == Seq(Row("system")))
    assert(spark.catalog.tableExists("megaphone.system.bins"))
    assert(rows("CALL megaphone.system.about()").head.getString(1) == spark.version)
  }

  test("The catalog cannot be changed.") {
    for (
      change <- Seq(
        "CREATE TABLE megaphone.system.mine (x INT)",
        "DROP TABLE megaphone.system.bins",
        "ALTER TABLE megaphone.system.bins ADD COLUMN x INT",
        "INSERT INTO megaphone.system.executors VALUES ('a', 1, 1, 1)",
        "CREATE NAMESPACE megaphone.mine",
        "DROP NAMESPACE megaphone.system"
      )
    ) intercept[Exception](sql(change).collect())
    assert(rows("SHOW TABLES IN megaphone.system").size == Tables.all.size)
    intercept[Exception](sql("SELECT * FROM megaphone.system.nothing"))
    intercept[Exception](sql("CALL megaphone.system.nothing()"))
    intercept[Exception](sql("CALL megaphone.mine.rescale(4)"))
  }

  test("Wrong arguments are refused by name, before anything changes.") {
    withQuery() { (_, _) =>
      def refused(call: String, condition: String, sentence: String): Unit =
        isRefused(s"CALL megaphone.system.$call", condition, sentence)
      refused("rescale(NULL)", "INVALID_ARGUMENT", "workers is NULL")
      refused("rescale(4.5)", "INVALID_ARGUMENT", "workers is of type DECIMAL(2,1)")
      refused("rescale(workers => 4e0)", "INVALID_ARGUMENT", "workers is of type DOUBLE")
      refused("rescale('4')", "INVALID_ARGUMENT", "workers is of type STRING")
      refused("rescale(4294967301)", "INVALID_ARGUMENT", "workers has 4294967301")
      refused("rescale(5, operator => '0')", "INVALID_ARGUMENT", "operator is of type STRING")
      refused("move(map(4294967313, 1))", "INVALID_ARGUMENT", "moves has 4294967313")
      val unknown = refusal("CALL megaphone.system.rescale(wrkrs => 4.5)")._1
      assert(unknown.contains("PARAMETER"), "it is Spark's to refuse")
      refused("rescale(mode => NULL, workers => 4.5)", "INVALID_ARGUMENT", "argument workers")
      refused("rescale(0)", "INVALID_WORKERS", "from 1 to")
      refused("rescale(3)", "EMPTY_PLAN", "")
      refused("rescale(5, 'nobody')", "UNKNOWN_QUERY", "counts")
      refused("rescale(5, strategy => 'slowly')", "UNKNOWN_STRATEGY", "slowly")
      refused("rescale(5, mode => 'never')", "UNKNOWN_MODE", "never")
      refused("rescale(5, operator => 9)", "UNKNOWN_OPERATOR", "only 0")
      refused("move(NULL)", "INVALID_ARGUMENT", "moves is NULL")
      refused("move(map(1, 1.5))", "INVALID_ARGUMENT", "moves is of type MAP")
      refused("move(map(1, CAST(NULL AS INT)))", "INVALID_ARGUMENT", "no worker for bin 1")
      refused("move(map(5000, 1))", "UNKNOWN_BIN", "5000")
      refused("move(map(1, 77))", "UNKNOWN_WORKER", "77")
      refused("submit('[]')", "EMPTY_PLAN", "")
      for (
        (steps, what) <- Seq(
          "{" -> "steps is not JSON",
          "{}" -> "A list of steps",
          "[7]" -> "A step is needed",
          """[{"move": {}}]""" -> "no move, only",
          """[{"moves": {"1": 1, "1": 2}}]""" -> "Duplicate",
          """[{"moves": {"x": 1}}]""" -> "not \\'x\\'",
          """[{"moves": {"1": 1.5}}]""" -> "not 1.5",
          """[{"moves": [1]}]""" -> "Moves are needed",
          "[] []" -> "steps is not JSON"
        )
      ) refused(s"submit('$steps')", "INVALID_ARGUMENT", what.replace("\\'", "'"))
      refused("plan()", "INVALID_ARGUMENT", "0 of the three")
      refused("plan(4, map(1, 1))", "INVALID_ARGUMENT", "2 of the three")
      refused("cancel('none')", "UNKNOWN_PLAN", "none")
      refused("cancel(NULL)", "INVALID_ARGUMENT", "plan is NULL")
      refused("wait('none')", "UNKNOWN_PLAN", "none")
      refused("wait('none', 61)", "INVALID_ARGUMENT", "from 0 to 60")
      assert(rows("SELECT * FROM megaphone.system.plans").isEmpty)
      rows("CALL megaphone.system.rescale(5)")
      refused("rescale(4)", "OVERLAPPING_PLAN", "still open")
    }
  }

  test("A query that is not named must be the only one, and have state in bins.") {
    isRefused("CALL megaphone.system.rescale(5)", "UNKNOWN_QUERY", "No query runs")
    val global = new Source
    val single = global.stream.groupBy().count().writeStream.outputMode("complete")
    val stateless = new Source
    val plain = stateless.stream.writeStream
      .queryName("plain")
      .option("checkpointLocation", folder("checkpoint").toString)
      .format("noop")
      .start()
    stateless.feed()
    plain.processAllAvailable()
    isRefused("CALL megaphone.system.rescale(5)", "NO_BINNED_STATE", "no stateful operator")
    withQuery("first") { (_, _) =>
      rows("CALL megaphone.system.plan(5)") // the other has no state, so this one is meant
      withQuery("second") { (_, _) =>
        isRefused("CALL megaphone.system.rescale(5)", "AMBIGUOUS_QUERY", "first (id ")
        assert(rows("CALL megaphone.system.plan(5, query => 'second')").nonEmpty)
        assert(rows("SELECT DISTINCT query_name FROM megaphone.system.bins").size == 2)
        val run = spark.streams.active.find(_.name == "second").get.runId
        val ofRun = sql(s"SELECT * FROM megaphone.system.workers WHERE run_id = '$run'")
        assert(ofRun.collect().map(_.getAs[String]("query_name")).toSet == Set("second"))
        val plan = ofRun.queryExecution.executedPlan
        assert(plan.isInstanceOf[LocalTableScanExec], s"it makes a job: $plan")
        val none = s"SELECT * FROM megaphone.system.workers WHERE run_id = '$run' AND run_id = 'x'"
        assert(rows(none).isEmpty)
        isRefused("CALL megaphone.system.rescale(5, 'plain')", "NO_BINNED_STATE", "")
      }
    }
    plain.stop()
    val lone = single
      .option("checkpointLocation", folder("checkpoint").toString)
      .format("noop")
      .start()
    global.feed()
    lone.processAllAvailable()
    isRefused("CALL megaphone.system.rescale(5)", "NOT_MOVABLE", "single partition")
    lone.stop()
  }

  test("Tables have the types of the reference.") {
    val bins = spark.table("megaphone.system.bins").schema
    assert(bins("operator").dataType == LongType && !bins("operator").nullable)
    assert(bins("bin").dataType == IntegerType && bins("query_name").nullable)
    assert(bins("executor").dataType == StringType && bins("executor").nullable)
  }
}
