// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.NullNode
import org.apache.spark.SparkConf
import org.apache.spark.util.kvstore.{InMemoryStore, KVStore}
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.runtime.Loss
import io.megaphone.spark.faces.events.MegaphoneEvent
import io.megaphone.spark.faces.ui.{Content, Links}
import io.megaphone.view.{DrainRow, RelocationRow}

/** What is kept of events, also of damaged ones. */
class EventStoreSuite extends AnyFunSuite {
  private val json = new ObjectMapper

  /** Empty. */
  protected def newStore(): KVStore = new InMemoryStore

  private final class Kept(settings: (String, String)*) {
    private val store = newStore()
    private val listener = new EventListener(new SparkConf(false).setAll(settings), store)
    val facts = new EventStore(store)

    def tell(kind: String, run: String, key: String, body: String, version: Int = 1): Unit =
      post(MegaphoneEvent(kind, version, 1000, run, key, json.readTree(body)))
    def post(event: MegaphoneEvent): Unit = listener.onOtherEvent(event)
    def query(run: String): Unit =
      tell("query", run, "", s"""{"query_id": "id", "name": "$run", "groups": []}""")
    def run: RunFacts = facts.run("r").get
  }

  private def plan(status: String) = s"""{"id": "p", "status": "$status", "moves": 3}"""

  test("the newest event about a thing stands for all before it, in the first one's place") {
    val kept = new Kept
    kept.query("r")
    kept.tell("plan", "r", "p", plan("running"))
    kept.tell("plan", "r", "q", plan("running").replace("\"p\"", "\"q\""))
    kept.tell("plan", "r", "p", plan("done"))
    assert(kept.run.plans.map(p => p.id -> p.status) == Vector("p" -> "done", "q" -> "running"))
    assert(kept.run.plans.head.moves == 3 && kept.run.openPlan.map(_.id).contains("q"))
  }

  test("a run is known by its query event, and over with its last") {
    val kept = new Kept
    assert(kept.facts.isEmpty && kept.facts.runIds.isEmpty)
    kept.tell("plan", "r", "p", plan("running"))
    kept.tell("ended", "r", "", "{}")
    assert(kept.facts.isEmpty && kept.facts.run("r").isEmpty)
    kept.query("r")
    assert(!kept.facts.isEmpty && kept.facts.runIds == Vector("r") && kept.run.end.isEmpty)
    kept.tell("ended", "r", "", """{"error": null}""")
    assert(kept.run.end.contains(EndFacts(1000, None)))
    kept.tell("ended", "r", "", """{"error": "it broke"}""")
    assert(kept.run.end.flatMap(_.error).contains("it broke"))
  }

  test("runs whose ids begin alike are kept apart") {
    val kept = new Kept
    Seq("r", "r/1", "r1").foreach(kept.query)
    kept.tell("plan", "r1", "p", plan("done"))
    assert(kept.facts.runIds == Vector("r", "r/1", "r1"))
    assert(kept.facts.runs.map(_.plans.size) == Vector(0, 0, 1))
  }

  test("of a run the oldest things go beyond the bound") {
    val kept = new Kept("spark.megaphone.ui.retainedBatches" -> "3")
    kept.query("r")
    (1 to 5).foreach(i => kept.tell("step", "r", s"$i", s"""{"batch": $i}"""))
    assert(kept.run.steps.map(_.batch) == Vector(3, 4, 5))
    assert(kept.facts.runIds == Vector("r"), "things of another kind stay")
  }

  test("of the runs the oldest that is over goes beyond the bound, with all that is of it") {
    val kept = new Kept("spark.megaphone.ui.retainedQueries" -> "2")
    kept.query("running")
    kept.query("over")
    kept.tell("plan", "over", "p", plan("done"))
    kept.tell("ended", "over", "", "{}")
    assert(kept.facts.runIds == Vector("running", "over"))
    kept.query("new")
    assert(kept.facts.runIds == Vector("running", "new"))
    kept.query("over") // nothing of the first is left
    assert(kept.facts.run("over").exists(run => run.plans.isEmpty && run.end.isEmpty))
  }

  test("losses, relocations and drains are read, each field by its name") {
    val kept = new Kept
    kept.query("r")
    kept.tell("loss", "r", "2", """{"executor":"2","batch":7,"workers":3,"promoted":1}""")
    kept.tell(
      "relocation",
      "r",
      "4",
      """{"id":4,"operator":1,"worker":2,"source":"a","target":"b","why":"drain","status":"done",
        |"bytes":9,"bytes_ready":6,"batch":8,"reason":null}""".stripMargin
    )
    kept.tell(
      "executors",
      "r",
      "",
      """{"executors":[{"executor":"a","state":"draining"}],"drains":[{"executor":"a",
        |"cause":"asked","status":"draining","workers":1,"seconds":5,"reason":"It waits.",
        |"release":true}]}""".stripMargin
    )
    kept.tell("demand", "r", "8", """{"batch":8,"sub_bins":5,"bytes_from_peer":6,"wait_ms":7}""")
    assert(kept.run.demands == Vector(DemandFacts(8, 5, 7)) && kept.run.waitMs(8) == 7)
    assert(kept.run.losses == Vector(Loss("2", 7, 3, 1)))
    assert(
      kept.run.relocations ==
        Vector(RelocationRow(4, 1, 2, "a", "b", "drain", "done", Some(9), Some(6), Some(8), None))
    )
    assert(kept.run.executors.map(_.state) == Vector("draining"))
    assert(
      kept.run.drains == Vector(
        DrainRow("a", "asked", "draining", 1, 5, Some("It waits."), release = true)
      )
    )
  }

  test("events that cannot be read are left out, and the others stay") {
    val kept = new Kept
    kept.query("r")
    val bodies = Seq("[]", "3", "\"text\"", "null").map(json.readTree)
    for (body <- bodies ++ Seq(null, NullNode.instance); kind <- Seq("plan", "state", null, "new"))
      kept.post(MegaphoneEvent(kind, 1, 0, "r", "x", body))
    kept.post(MegaphoneEvent("plan", 1, 0, null, "x", json.readTree("{}")))
    kept.tell("plan", "r", "p", plan("done"), version = 2)
    kept.tell("new", "r", "p", "{}")
    assert(kept.facts.runIds == Vector("r") && kept.run.plans.isEmpty && kept.run.groups.isEmpty)
    kept.post(MegaphoneEvent("plan", 1, 0, "r", null, json.readTree(plan("done"))))
    assert(kept.run.plans.map(_.id) == Vector("p"))
  }

  test("a field of another type, or one that is missing, costs that field") {
    val bodies = Map(
      "query" -> """{"query_id": 3, "name": {"a": 1}, "groups": "many"}""",
      "state" -> """{"operator": "x", "worker_of_bin": [0, "a", null, 7], "bytes_of_bin": "many",
                   |"moving": [1], "targets": [], "arrived": {"a": 1},
                   |"workers": [null, 3, {"worker": "x", "executor": 5}]}""".stripMargin,
      "plan" -> """{"id": null, "status": 7, "moves": "many", "batches": [null, "x"]}""",
      "step" -> """{"batch": [], "bins": 3, "wait_ms": "long"}""",
      "recovery" -> """{"batch": "x"}""",
      "demand" -> """{"batch": 1, "sub_bins": "many"}""",
      "executors" -> """{"executors": [{"executor": 1, "budget": "x"}, 5]}""",
      "ended" -> """{"error": 3}"""
    )
    for ((kind, body) <- bodies; text <- Seq(body, "{}")) {
      val kept = new Kept
      kept.query("r")
      kept.tell("state", "r", "0", """{"worker_of_bin": [0, 0], "workers": [{"worker": 0}]}""")
      kept.tell(kind, "r", "0", text)
      val content = Content.query(kept.run, Measure.Bytes, Links(identity, _ => None))
      assert(content.nonEmpty && Content.json(Vector(kept.run)).nonEmpty, kind)
    }
  }

  test("sizes that are not known are none, not 0 and not -1") {
    val kept = new Kept
    kept.query("r")
    kept.tell(
      "state",
      "r",
      "0",
      """{"worker_of_bin": [0, 1], "bytes_of_bin": [-1, 0], "keys_of_bin": [5]}"""
    )
    val group = kept.run.groups.head
    assert((0 to 1).map(group.sizeOf(_, Measure.Bytes)) == Seq(None, Some(0)))
    assert((0 to 1).map(group.sizeOf(_, Measure.Keys)) == Seq(Some(5), None))
  }

}
