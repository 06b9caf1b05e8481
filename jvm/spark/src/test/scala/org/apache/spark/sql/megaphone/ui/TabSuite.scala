// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.ui

import java.io.ByteArrayInputStream
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.net.http.HttpRequest.BodyPublishers
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.{SecurityManager, SparkConf}
import org.apache.spark.deploy.history.EventLogFileCompactor
import org.apache.spark.scheduler.ReplayListenerBus
import org.apache.spark.status.{AppStatusListener, AppStatusStore, ElementTrackingStore}
import org.apache.spark.ui.{SparkUI, WebUITab}
import org.apache.spark.util.kvstore.InMemoryStore
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.spark.driver.Queries
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.faces.history.{EventStore, RunFacts}
import io.megaphone.spark.query.KeyedSession
import io.megaphone.view.BinRow

/** The tab of a running application, and the same made of its event log. */
class TabSuite extends KeyedSession {
  private val events = folder("events")
  private val client = HttpClient.newHttpClient()

  override protected def settings: Map[String, String] = Map(
    "spark.ui.enabled" -> "true",
    "spark.ui.port" -> "0",
    "spark.eventLog.enabled" -> "true",
    "spark.eventLog.dir" -> events.toUri.toString,
    "spark.eventLog.compress" -> "false",
    "spark.eventLog.rolling.enabled" -> "false",
    "spark.megaphone.bins" -> "64",
    "spark.megaphone.ui.stateIntervalMs" -> "20"
  )

  private def get(path: String, method: String = "GET"): HttpResponse[String] = {
    val uri = URI.create(spark.sparkContext.uiWebUrl.get + path)
    val request = HttpRequest.newBuilder(uri).method(method, BodyPublishers.noBody()).build()
    client.send(request, HttpResponse.BodyHandlers.ofString())
  }

  private def live: EventStore = {
    spark.sparkContext.listenerBus.waitUntilEmpty(60000)
    new EventStore(spark.sparkContext.statusStore.store)
  }
  private def facts(run: Running): RunFacts = live.run(run.query.runId.toString).get

  /** A query that has run a batch on three workers. */
  private def started(source: Source): Running = {
    val running = start(source.stream.groupBy("k").count(), "update")
    source.feed()
    running.query.processAllAvailable()
    running
  }

  private def ended(running: Running, source: Source): Unit =
    eventually(timeout(60.seconds)) {
      source.feed()
      running.query.processAllAvailable()
      assert(facts(running).plans.last.status == "done")
    }

  test("The page shows where the state is, and what a plan has done and cost.") {
    val source = new Source
    val running = started(source)
    val run = running.query.runId.toString
    MegaphoneApi.rescale(run, 5, "batched(8)", "prepared", -1)
    ended(running, source)
    eventually(timeout(30.seconds)) {
      val now = facts(running)
      val rows = BinRow.of(Queries.of(run).state, (_, _) => None, Queries.of(run).commits)
      assert(now.groups.map(_.workerOfBin) == Vector(rows.map(_.worker)))
      assert(now.groups.head.workers.size == 5)
      assert(now.groups.head.workers.map(_.bins).sum == 64)
      assert(
        now.keys == spark.sql("SELECT sum(keys) FROM megaphone.system.workers").head().getLong(0)
      )
      assert(now.executors.map(_.executor) == Vector("driver"))
    }
    val now = facts(running)
    assert(now.plans.map(p => (p.moves, p.movesDone)) == Vector((25, 25)))
    assert(now.plans.map(p => (p.workersBefore, p.workersAfter)) == Vector((Vector(3), Vector(5))))
    assert(now.steps.map(_.moved).sum == 25 && now.steps.map(_.batch) == now.plans.head.batches)
    assert(now.batches.map(_.batch) == now.batches.indices.map(_.toLong))
    assert(now.batches.map(_.rows).sum == 60L * now.batches.size)
    val page = get(s"/megaphone/query/?run=$run")
    assert(page.statusCode == 200 && page.body.contains("25 moves, from 3 to 5 workers"))
    assert(get("/megaphone/").body.contains(run))
    val newest = now.batches.last.batch
    assert(get("/megaphone/json/").body.contains(s""""last_batch" : $newest"""))
    assert(get("/jobs/").body.contains("State migration"), "every page has the tab")
    assert(get(s"/megaphone/query/json/?run=$run").body.contains("\"moves_done\" : 25"))
    running.stop()
    eventually(timeout(30.seconds))(assert(facts(running).end.exists(_.error.isEmpty)))
    assert(get(s"/megaphone/query/?run=$run").body.contains("stopped"))
  }

  test("A plan can be cancelled by the page's button, and by nothing that is only like it.") {
    val source = new Source
    val running = started(source)
    val run = running.query.runId.toString
    val plan = MegaphoneApi.rescale(run, 5, "fluid", "prepared", -1)
    val id = """"id":"(\w+)"""".r.findFirstMatchIn(plan).get.group(1)
    eventually(timeout(30.seconds))(assert(facts(running).openPlan.exists(_.id == id)))
    val action = """action="([^"]+)"""".r
    def buttons = action
      .findAllMatchIn(get(s"/megaphone/query/?run=$run").body)
      .map(_.group(1).replace("&amp;", "&"))
      .toVector
    assert(buttons.size == 1)
    val right = buttons.head
    assert(get(right).statusCode == 405)
    for (
      wrong <- Seq(
        right.replaceFirst("token=.", "token=z"),
        right.replaceAll("token=.*", ""),
        right.replace(run, "x"),
        right.replace(id, "x")
      )
    )
      assert(get(wrong, "POST").statusCode == 403, wrong)
    assert(facts(running).openPlan.isDefined)
    val done = get(right, "POST")
    assert(done.statusCode == 302)
    assert(done.headers.firstValue("Location").get.endsWith(s"/megaphone/query/?run=$run"))
    eventually(timeout(30.seconds))(
      assert(facts(running).plans.map(_.status) == Vector("cancelled"))
    )
    assert(buttons.isEmpty)
    running.stop()
    assert(get(right, "POST").statusCode == 409, "the query has stopped")
  }

  test("A restarted query has its plans in their order, and what they cost is not made up.") {
    val source = new Source
    val checkpoint = folder("checkpoint").toString
    def started() = {
      val running = start(source.stream.groupBy("k").count(), "update", checkpoint)
      source.feed()
      running.query.processAllAvailable()
      running
    }
    val first = started()
    for (bin <- 0 until 6) {
      val run = first.query.runId.toString
      val worker = Queries.of(run).state.currentTable(0).workerOf(bin)
      MegaphoneApi.move(run, s"""{"$bin": ${(worker + 1) % 3}}""", null, "direct", -1)
      ended(first, source)
    }
    val plans = facts(first).plans.map(_.id)
    first.stop()
    val again = started()
    eventually(timeout(30.seconds))(assert(facts(again).plans.size == 6))
    val now = facts(again)
    assert(now.plans.map(_.id) == plans && plans.distinct.size == 6)
    assert(now.plans.forall(_.seenAt.isEmpty), "they had ended before this run")
    val rows = get(s"/megaphone/query/?run=${again.query.runId}").body.split("<tr>")
    assert(plans.forall(id => rows.exists(row => row.contains(id) && row.contains("–"))))
    assert(now.end.isEmpty)
    eventually(timeout(60.seconds))(assert(facts(first).end.isDefined))
    again.stop()
    eventually(timeout(30.seconds))(assert(facts(again).end.isDefined))
  }

  test("The end of a query that fails says why.") {
    val source = new Source
    var batches = 0
    val running = start(
      source.stream.groupBy("k").count(),
      "update",
      rowsOf = rowsAnd { () =>
        batches += 1
        if (batches > 1) throw new RuntimeException("it broke")
      }
    )
    source.feed()
    running.query.processAllAvailable()
    source.feed()
    intercept[Exception](running.query.processAllAvailable())
    eventually(timeout(30.seconds)) {
      assert(facts(running).end.flatMap(_.error).exists(_.contains("it broke")))
    }
  }

  test("A query on another provider is listed, and says why it does not move.") {
    val provider = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    withConf("spark.sql.streaming.stateStore.providerClass" -> provider) {
      val source = new Source
      val running = started(source)
      val now = facts(running)
      assert(now.query.provider.contains(provider) && now.batches.isEmpty)
      assert(get("/megaphone/").body.contains(s"Its state is kept by $provider"))
      running.stop()
      eventually(timeout(30.seconds))(assert(facts(running).end.isDefined))
    }
  }

  private def logFile = Files.list(events).iterator.asScala.find(!_.toString.endsWith(".crc")).get

  /** The UI that the history server makes of a log. */
  private def replayed(lines: Seq[String], settings: (String, String)*): (SparkUI, EventStore) = {
    val conf = new SparkConf(false).setAll(settings)
    val store = new ElementTrackingStore(new InMemoryStore, conf)
    val plugin = new MegaphoneHistoryPlugin
    val bus = new ReplayListenerBus
    bus.addListener(new AppStatusListener(store, conf, live = false))
    plugin.createListeners(conf, store).foreach(bus.addListener)
    val log = new ByteArrayInputStream(lines.mkString("\n").getBytes(UTF_8))
    bus.replay(log, "log", maybeTruncated = true)
    val ui = SparkUI.create(
      None,
      new AppStatusStore(store),
      conf,
      new SecurityManager(conf),
      "app",
      "/history/app",
      0L
    )
    plugin.setupUI(ui)
    (ui, new EventStore(store))
  }

  private def tabOf(ui: SparkUI): Option[WebUITab] = ui.getTabs.find(_.prefix == MegaphoneTab.Path)

  private def rendered(ui: SparkUI, prefix: String, parameters: (String, String)*): String =
    tabOf(ui).get.pages
      .find(_.prefix == s"${MegaphoneTab.Path}/$prefix".stripSuffix("/"))
      .get
      .render(SomeRequest(parameters: _*))
      .mkString

  private lazy val log: Vector[String] = {
    spark.sparkContext.listenerBus.waitUntilEmpty(60000)
    Files.readAllLines(logFile).asScala.toVector
  }

  test("The history server shows what the live page shows, without buttons and script.") {
    val (ui, history) = replayed(log)
    assert(history.runIds == live.runIds && history.runIds.size == 6)
    for ((then, now) <- history.runs.zip(live.runs)) assert(then == now)
    val run = history.runIds.head
    val page = rendered(ui, "query", "run" -> run)
    assert(page.contains("25 moves, from 3 to 5 workers"))
    assert(page.contains("/history/app/megaphone/query/?run="))
    assert(!page.contains("setInterval") && !page.contains("<form"))
    assert(rendered(ui, "", "by" -> "keys").contains(run))
    assert(rendered(ui, "query", "run" -> "<b>").contains("No such run"))
  }

  test("A log that the history server has compacted has the state, the plans and the steps.") {
    val rolled = folder("rolled")
    val files = log.grouped(log.size / 3 + 1).toVector.zipWithIndex.map { case (lines, i) =>
      Files.write(rolled.resolve(s"events_${i + 1}_app"), lines.asJava)
    }
    val hadoop = new Configuration(false)
    val local = FileSystem.getLocal(hadoop)
    val conf = new SparkConf(false).set("spark.eventLog.compress", "false")
    val compactor = new EventLogFileCompactor(conf, hadoop, local, 1, 0.0)
    compactor.compact(files.map(f => local.getFileStatus(new Path(f.toUri))))
    val kept = Files.list(rolled).iterator.asScala.find(_.toString.endsWith(".compact")).get
    val lines = Seq(kept, files.last).flatMap(Files.readAllLines(_).asScala)
    assert(lines.size < log.size, "ended jobs are left out")
    val (ui, history) = replayed(lines)
    for ((then, now) <- history.runs.zip(live.runs)) {
      assert(then.groups == now.groups && then.plans == now.plans && then.end == now.end)
      assert(then.steps.map(_.batch) == now.steps.map(_.batch))
    }
    val run = history.runIds.head
    assert(rendered(ui, "query", "run" -> run).contains("25 moves, from 3 to 5 workers"))
  }

  test("What does not change is not told again.") {
    val told = log.filter(_.contains("MegaphoneEvent")).map(new ObjectMapper().readTree(_))
    val ofThings = told.groupBy(e => Seq("run", "kind", "key").map(e.path(_).asText))
    assert(ofThings.size > 10)
    for ((thing, events) <- ofThings if thing(1) != "state") {
      val bodies = events.map(_.path("body"))
      val repeated = bodies.zip(bodies.drop(1)).count { case (one, next) => one == next }
      assert(repeated <= 1, s"$thing: only at the end of a run all is told once more")
    }
  }

  test("A run that did not tell its end has ended with its application.") {
    val unheard = log.filterNot(_.contains("\"kind\":\"ended\""))
    assert(replayed(unheard)._2.runs.count(_.end.isEmpty) == 6)
    val end = """{"Event":"SparkListenerApplicationEnd","Timestamp":1700000000000,"ExitCode":0}"""
    val runs = replayed(unheard :+ end)._2.runs
    assert(runs.map(_.end.map(_.timeMs)) == Vector.fill(6)(Some(1700000000000L)))
  }

  test("A setting of the history server that is wrong costs the tab alone.") {
    val (ui, _) = replayed(log, "spark.megaphone.ui.retainedBatches" -> "1k")
    assert(tabOf(ui).isEmpty && ui.store.jobsList(null).nonEmpty)
  }

  test("A log without our events has no tab, and one of a damaged event has all others.") {
    val ours = log.filter(_.contains("MegaphoneEvent"))
    assert(tabOf(replayed(log.diff(ours))._1).isEmpty)
    def changed(from: String, to: String) = log.map { line =>
      if (line.contains("MegaphoneEvent")) line.replaceAll(from, to) else line
    }
    val damaged = Map(
      "an unknown class" -> changed("faces.events.MegaphoneEvent", "faces.events.Unknown"),
      "a later version" -> changed("\"version\":1", "\"version\":2"),
      "text for a number" -> changed("\"moves\":25", "\"moves\":\"many\""),
      "no body" -> changed(",\"body\":\\{.*\\}\\}$", "}"),
      "a body of another type" -> changed(",\"body\":\\{.*\\}\\}$", ",\"body\":[3]}"),
      "fields that are not known" -> changed("\"kind\":", "\"new\":{\"a\":[1]},\"kind\":"),
      "fields that are missing" -> changed("\"run\":\"[^\"]*\",", ""),
      "a cut line" -> (log.init :+ log.last.take(20))
    )
    for ((what, lines) <- damaged) withClue(what) {
      assert(lines != log)
      val (ui, _) = replayed(lines)
      assert(ui.store.jobsList(null).nonEmpty, "the application's other tabs are there")
      tabOf(ui).foreach(_ => assert(rendered(ui, "").nonEmpty))
    }
    val (_, unknown) = replayed(damaged("fields that are not known"))
    assert(unknown.runIds.size == 6, "a later field does not hide what is known")
  }
}
