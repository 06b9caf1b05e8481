// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq, XML}

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.runtime.Loss
import io.megaphone.spark.faces.history._
import io.megaphone.view.{DrainRow, RelocationRow}

/** The pages, as functions of facts. */
class PagesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val noLinks = Links(identity, _ => None)

  private def page(run: RunFacts, links: Links = noLinks): Elem =
    parsed(Content.page(Content.query(run, Measure.Bytes, links)))

  /** As a browser of XML would read it: what is not escaped fails here. */
  private def parsed(content: NodeSeq): Elem = XML.loadString(content.toString)

  private def svgs(content: NodeSeq): Seq[Elem] =
    (content \\ "svg").collect { case e: Elem if e.attribute("role").isDefined => e }

  private val shapes = for {
    bins <- Gen.oneOf(1, 2, 64, 1024, 2048, 4096, 65536)
    workers <- Gen.chooseNum(1, 200)
    seed <- Gen.chooseNum(1, 1000)
  } yield SomeRun.group(bins, workers, seed)

  test("each bin is in exactly one cell, of its worker, and there are not many more cells") {
    forAll(shapes, minSuccessful(30)) { group =>
      val cells = HeatMap.strips(group, Measure.Bytes).map(_.cells)
      assert(cells.flatten.flatMap(_.bins).sorted == group.workerOfBin.indices)
      for ((ofWorker, worker) <- cells.zipWithIndex; cell <- ofWorker) {
        assert(cell.worker == worker)
        assert(cell.bins.forall(group.workerOfBin(_) == worker))
        assert(cell.moving.map(_._1) == cell.bins.filter(group.moving.contains))
        assert(cell.arrived == cell.bins.filter(group.arrived))
      }
      // A worker's last cell may be of fewer bins.
      assert(cells.flatten.size <= HeatMap.CellsMax + group.workers.size)
    }
  }

  test("a cell's size is the mean of the bins whose size is known") {
    val group = SomeRun
      .group(4096, 1)
      .copy(sizes = Map(Measure.Keys -> Vector.tabulate(4096)(b => Option.when(b != 1)(b.toLong))))
    val cells = HeatMap.strips(group, Measure.Keys).flatMap(_.cells)
    assert(cells.take(2).map(_.bins) == Vector(Vector(0, 1), Vector(2, 3)))
    assert(cells.take(2).map(_.size) == Vector(Some(0), Some(2)))
  }

  test("the colour grows with the size, from 0 for nothing to 5 for the largest") {
    assert(HeatMap.level(0, 100) == 0 && HeatMap.level(1, 100) == 1 && HeatMap.level(100, 100) == 5)
    forAll(Gen.chooseNum(0L, 1L << 40), Gen.chooseNum(0L, 1L << 40)) { (a, b) =>
      val (small, large) = (math.min(a, b), math.max(a, b))
      val levels = Seq(small, large).map(HeatMap.level(_, large))
      assert(levels == levels.sorted && levels.forall(l => l >= 0 && l <= 5))
    }
  }

  test("bins that move next are hatched, those that came are framed, and words say so too") {
    val group = SomeRun.group(64, 4)
    val map = HeatMap(group, Measure.Bytes)
    def ofKind(kind: String) =
      (map \\ "rect").filter(r => (r \ "@class").text.split(' ').contains(kind))
    // One more of each is in the legend.
    assert(ofKind("moving").size == group.moving.size + 1 && group.moving.nonEmpty)
    assert(ofKind("arrived").size == group.arrived.size + 1 && group.arrived.nonEmpty)
    val titles = (map \\ "title").map(_.text)
    assert(titles.count(_.contains("moves to worker")) == group.moving.size)
    assert(titles.count(_.contains("came with the last step")) == group.arrived.size)
  }

  test("each executor has its workers, and those whose executor is not known come last") {
    val group = SomeRun.group(64, 4)
    val unknown =
      group.copy(workers = group.workers.updated(1, group.workers(1).copy(executor = None)))
    val texts = (HeatMap(unknown, Measure.Bytes) \\ "text").map(_.text)
    val names = texts.filter(t => t.startsWith("executor") || t.startsWith("worker"))
    assert(
      names == Seq("executor 1", "worker 0", "worker 3", "executor 3", "worker 2") ++
        Seq("executor not known yet", "worker 1")
    )
  }

  test("a number of a worker that cannot be is a strip, and no more") {
    val group = SomeRun.group(64, 2)
    val damaged = group.copy(workerOfBin = group.workerOfBin.updated(3, 1000000000).updated(4, -7))
    assert(HeatMap.strips(damaged, Measure.Bytes).map(_.worker) == Vector(-7, 0, 1, 1000000000))
    assert(HeatMap(damaged, Measure.Bytes).nonEmpty)
  }

  test("what a plan does to the number of workers is said only if it does something") {
    val plan = SomeRun.plan("p")
    assert(Words.plan(plan) == "96 moves, from 4 to 8 workers")
    assert(Words.plan(plan.copy(workersBefore = Vector())) == "96 moves, to 8 workers")
    assert(Words.plan(plan.copy(moves = 1, workersBefore = Vector(8))) == "1 move")
    assert(
      Words.plan(plan.copy(workersBefore = Vector(8, 2), workersAfter = Vector(1, 1))) ==
        "96 moves, from 8 and 2 to 1 worker"
    )
  }

  test("what a plan cost is not told if not all of its steps are known") {
    def row(plan: PlanFacts, steps: Int) = {
      val run = SomeRun.run(SomeRun.group(8, 2), Vector(plan))
      val known = Vector.tabulate(steps)(i => run.steps.head.copy(plan = plan.id, step = i))
      (PlanTable(run.copy(steps = known), noLinks) \\ "tbody" \\ "td").map(_.text)
    }
    assert(row(SomeRun.plan("p"), 3).slice(6, 9) == Seq("3.0 MiB", "6.0 MiB", "17 ms"))
    assert(row(SomeRun.plan("p"), 2).slice(6, 9) == Seq("–", "–", "–"))
  }

  test("of many plans the newest have a row, and those that are open") {
    val open = SomeRun.plan("open", "running")
    val plans = Vector.tabulate(80)(i => SomeRun.plan(s"p$i")).updated(5, open)
    val shown = PlanTable.shown(SomeRun.run(SomeRun.group(8, 2), plans)).map(_.id)
    assert(shown.head == "open" && shown.tail == (30 until 80).map(i => s"p$i"))
  }

  test("65,536 bins on 200 workers make a page of less than a megabyte") {
    val run = SomeRun
      .run(SomeRun.group(65536, 200), Vector.tabulate(50)(i => SomeRun.plan(s"plan$i")))
      .copy(batches = SomeRun.batches(0 to 499))
    val bytes = Content.page(Content.query(run, Measure.Bytes, noLinks)).toString.getBytes.length
    assert(bytes < 1000000)
  }

  test("every text from elsewhere is escaped") {
    val evil = "<script>alert('&\"')</script>"
    val group = SomeRun.group(64, 2)
    val run = SomeRun.run(
      group.copy(name = evil, workers = group.workers.map(_.copy(executor = Some(evil)))),
      Vector(SomeRun.plan(evil, status = "failed").copy(reason = Some(evil), strategy = evil))
    )
    val evilRun = run.copy(
      query = QueryFacts(evil, evil, Some(evil), None, 0),
      end = Some(EndFacts(0, Some(evil))),
      executors = run.executors.map(_.copy(executor = evil, host = evil))
    )
    val contents = Seq(
      page(evilRun),
      page(evilRun.copy(query = evilRun.query.copy(provider = Some(evil)))),
      parsed(Content.page(Content.queries(Vector(evilRun, evilRun), noLinks))),
      parsed(Content.page(Content.unknownRun(evil)))
    )
    assert(contents.forall(content => (content \\ "script").isEmpty))
    assert(page(evilRun).text.contains(evil))
  }

  test("every drawing says what it shows, and its numbers are in a table") {
    val run = SomeRun.run(SomeRun.group(64, 3))
    val content = page(run)
    assert(svgs(content).size == 2)
    assert(svgs(content).forall(svg => (svg \ "@aria-label").text.length > 20))
    def table(id: String) =
      (content \\ "details").filter(d => (d \ "@id").text == id) \\ "tbody" \ "tr"
    assert(table("megaphone-bins-0").size == 64)
    assert(table("megaphone-workers-0").size == 3)
    assert(table("megaphone-batches").size == run.batches.size)
    val recovered = table("megaphone-batches").find(r => (r \ "td").head.text == "3").get
    assert(recovered.text.contains("2 workers, 5.0 MiB") && recovered.text.contains("90 ms"))
    val brought = table("megaphone-batches").find(r => (r \ "td").head.text == "11").get
    assert(brought.text.contains("1,234") && brought.text.contains("45 ms"))
  }

  test("who stands by and what is elsewhere is told of each worker, what came of each batch") {
    val group = SomeRun.group(64, 2)
    val first = group.workers(0).copy(standbys = 2, binsIncomplete = 1201, bytesToCome = 4500600)
    val content = page(SomeRun.run(group.copy(workers = group.workers.updated(0, first))))
    def cells(id: String, row: String): Map[String, String] = {
      val table = (content \\ "details").filter(d => (d \ "@id").text == id)
      val titles = (table \\ "th").map(_.text)
      val rows = (table \\ "tbody" \ "tr").map(r => titles.zip((r \ "td").map(_.text)).toMap)
      rows.find(_(titles.head) == row).get
    }
    val expected = Seq(Seq("0", "2", "1,201", "4,500,600"), Seq("1", "0", "0", "0"))
    for (worker <- expected) {
      val told = cells("megaphone-workers-0", worker.head)
      assert(Seq("Standbys", "Bins incomplete", "Bytes to come").map(told) == worker.tail)
    }
    for ((batch, subBins, wait) <- Seq(("11", "1,234", "45 ms"), ("12", "0", "0 ms"))) {
      val told = cells("megaphone-batches", batch)
      assert(told("Sub-bins brought") == subBins && told("Waited for bins") == wait)
    }
  }

  test("a plan that is open has a button; one that is over has none, nor has anybody else's page") {
    def buttons(plan: PlanFacts, links: Links) =
      page(SomeRun.run(SomeRun.group(8, 2), Vector(plan)), links) \\ "form"
    val mayCancel = Links(identity, plan => Some(s"/cancel/?plan=$plan&token=1"))
    val open = SomeRun.plan("p", status = "running", batches = Vector(10))
    val form = buttons(open, mayCancel)
    assert(
      (form \ "@action").text == "/cancel/?plan=p&token=1" && (form \ "@method").text == "post"
    )
    assert(buttons(open, noLinks).isEmpty)
    assert(buttons(SomeRun.plan("p"), mayCancel).isEmpty)
  }

  test("the medians are of the batches before a plan was seen, until its last step, and after") {
    val batches =
      (0 to 30).map(n => BatchFacts(n.toLong, if (n < 10) 100 else if (n <= 12) 300 else 200, 1))
    assert(
      PlanTable.medians(SomeRun.plan("p"), batches.toVector) ==
        PlanTable.Medians(Some(100), Some(300), Some(200))
    )
    val open = SomeRun.plan("p", status = "running", batches = Vector(10))
    assert(PlanTable.medians(open, batches.toVector.take(13)).after.isEmpty)
    val later = (500 to 600).map(n => BatchFacts(n.toLong, 1, 1)).toVector
    assert(PlanTable.medians(SomeRun.plan("p"), later).toString == "", "of long ago")
    assert(PlanTable.medians(SomeRun.plan("p", seenAt = None), batches.toVector).toString == "")
  }

  test("the timeline has a bar for each batch, cuts outliers, and shades the steps of plans") {
    val slow = BatchFacts(41, 90000, 1)
    val run = SomeRun.run(SomeRun.group(8, 2))
    val drawing = Timeline(run.copy(batches = run.batches :+ slow)).get
    val bars =
      (drawing \\ "rect").filter(r => (r \ "@class").text == "bar" && (r \ "title").nonEmpty)
    assert(bars.size == 42)
    val heights = bars.map(r => (r \ "@height").text.toInt)
    assert(heights.init.forall(_ > heights.max / 2), "the long one does not flatten the others")
    val waits =
      (drawing \\ "rect").filter(r => (r \ "@class").text == "wait" && (r \ "title").nonEmpty)
    assert(
      waits.map(r => (r \ "@height").text.toInt).zipWithIndex.filter(_._1 > 0).map(_._2) == Seq(
        3,
        10,
        11
      )
    )
    assert(
      (drawing \\ "rect").count(r => (r \ "@class").text == "span" && (r \ "title").nonEmpty) == 1
    )
    assert(Timeline(run.copy(batches = Vector.empty)).isEmpty)
  }

  test("what was lost, which workers went elsewhere, and what is to be emptied is said") {
    val run = SomeRun.run(SomeRun.group(8, 2))
    def loss(batch: Long, promoted: Int) = Loss(s"$batch", batch, 2, promoted)
    def gone(id: Long, batch: Option[Long], reason: Option[String]) = {
      val status = if (reason.isEmpty) "done" else "failed"
      RelocationRow(id, 0, 1, "1", "2", "drain", status, Some(2 << 20), None, batch, reason)
    }
    val all = run.copy(
      losses = Vector(loss(3, 2), loss(7, 1), loss(9, 0)),
      relocations =
        Vector(gone(1, Some(5), None), gone(2, Some(5), None), gone(3, None, Some("No."))),
      drains = Vector(DrainRow("3", "asked", "draining", 1, 9, Some("It waits."), release = false))
    )
    val drawing = Timeline(all).get
    val lines = (drawing \\ "line").filter(l => (l \ "@class").text == "loss").map(_.text)
    assert(
      lines == Seq(
        "Executor 3 with 2 workers: all went on where their standbys are.",
        "Executor 7 with 2 workers: 1 went on where their standbys are.",
        "Executor 9 with 2 workers: all are read from the checkpoint.",
        "executor lost"
      )
    )
    val dots = (drawing \\ "circle").map(_.text)
    assert(dots == Seq("2 workers came to other executors", "workers came"))
    val content = page(all)
    val text = content.text
    assert(text.contains("Executor 3 is to be emptied; left to go: 1 worker. It waits."))
    val rows = (content \\ "details").filter(d => (d \ "@id").text == "megaphone-relocations") \\
      "tbody" \ "tr"
    assert(rows.size == 3 && rows.head.text.contains("failed: No."))
    assert(!page(all.copy(end = Some(EndFacts(0, None)))).text.contains("is to be emptied"))
    assert(!page(run).text.contains("went elsewhere"))
  }

  test("names of plans do not overlap, and none is cut off at the right") {
    val plans =
      Vector.tabulate(13)(i => SomeRun.plan(s"plan-$i", batches = Vector(i * 11L, i * 11L + 1)))
    val run = SomeRun.run(SomeRun.group(8, 2), plans)
    val drawing = Timeline(run.copy(batches = SomeRun.batches(0 to 140))).get
    val width = (drawing \ "@viewBox").text.split(' ')(2).toInt
    val names = (drawing \\ "text").filter(_.text.startsWith("plan-")).map { text =>
      val (x, size) = ((text \ "@x").text.toInt, Svg.widthOf(text.text))
      if ((text \ "@class").text == "s e") (x - size, x) else (x, x + size)
    }
    assert(names.size > 1)
    assert(names.forall(_._2 <= width))
    for (Seq(one, next) <- names.sortBy(_._1).sliding(2)) assert(one._2 <= next._1)
  }

  test("numbers read the same everywhere") {
    assert(
      Seq(0L, 1023L, 1024L, 962072674L).map(Numbers.bytes) ==
        Seq("0 B", "1023 B", "1.0 KiB", "917.5 MiB")
    )
    assert(Seq(9999L, 10000L, 4400000L).map(Numbers.count) == Seq("9,999", "10.0 k", "4.4 M"))
    assert(
      Seq(272L, 9999L, 12340L, 245000L).map(Numbers.duration) ==
        Seq("272 ms", "9,999 ms", "12.3 s", "4 min 5 s")
    )
    assert(Numbers.median(Seq(3, 1, 2)).contains(2L) && Numbers.median(Seq.empty).isEmpty)
  }

  test("the list has running queries first, and says why one is not in bins") {
    def run(
        name: String,
        startedMs: Long,
        endedMs: Option[Long],
        provider: Option[String] = None
    ) = {
      val some = SomeRun.run(SomeRun.group(8, 2))
      some.copy(
        query = QueryFacts(s"run-$name", "id", Some(name), provider, startedMs),
        end = endedMs.map(EndFacts(_, None))
      )
    }
    val runs = Vector(
      run("ended first", 1, Some(5)),
      run("ended last", 2, Some(6)),
      run("running", 3, None),
      run("elsewhere", 4, None, Some("org.example.Provider"))
    )
    val rows = Content.queries(runs, noLinks) \\ "tbody" \ "tr"
    val names = rows.map(row => (row \\ "a").text)
    assert(names == Seq("elsewhere", "running", "ended last", "ended first"))
    assert(rows.head.text.contains("Its state is kept by org.example.Provider"))
    assert(Content.queries(Vector.empty, noLinks).text.contains("No query with state"))
  }
}
