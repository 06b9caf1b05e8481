// SPDX-License-Identifier: Apache-2.0
package io.megaphone.benchmarks

import java.util.concurrent.TimeUnit

import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkConf
import org.apache.spark.util.kvstore.InMemoryStore
import org.openjdk.jmh.annotations._

import io.megaphone.spark.faces.events.MegaphoneEvent
import io.megaphone.spark.faces.history.{EventListener, EventStore, Measure}
import io.megaphone.spark.faces.ui.{Content, Links}

/** What the tab costs: a page of a query, as it is asked for, and an event about where its state
  * is, as the listener takes it. Goals: a page of 65,536 bins in 300 ms, an event in 1 ms.
  */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 4, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
class TabBenchmark {
  import TabBenchmark._

  @Param(Array("1024", "65536"))
  var bins: Int = _

  private val store = new InMemoryStore
  private val listener = new EventListener(new SparkConf(false), store)
  private val facts = new EventStore(store)
  private var state: MegaphoneEvent = _

  @Setup
  def setUp(): Unit = {
    state = event("state", "0", stateOf(bins, Workers))
    listener.onOtherEvent(event("query", "", json.createObjectNode.put("query_id", "q")))
    listener.onOtherEvent(state)
    for (i <- 1 to Things) {
      val plan = json.createObjectNode.put("id", s"plan$i").put("status", "done").put("moves", i)
      listener.onOtherEvent(event("plan", s"$i", plan))
      val step = json.createObjectNode.put("plan", s"plan$i").put("batch", i)
      listener.onOtherEvent(event("step", s"$i", step))
    }
  }

  @Benchmark
  def page(): String = {
    val run = facts.run(Run).get
    Content.page(Content.query(run, Measure.Bytes, Links(identity, _ => None))).toString
  }

  @Benchmark
  def stateEvent(): Unit = listener.onOtherEvent(state)
}

object TabBenchmark {
  private val Run = "run"
  private val Workers = 200
  private val Things = 500
  private val json = new ObjectMapper

  private def event(kind: String, key: String, body: ObjectNode) =
    MegaphoneEvent(kind, MegaphoneEvent.Version, 0, Run, key, body)

  private def stateOf(bins: Int, workers: Int): ObjectNode = {
    val random = new Random(1)
    val body = json.createObjectNode.put("operator", 0).put("name", "stateStoreSave")
    def ofBins(name: String)(value: => Long): Unit = {
      val all = body.putArray(name)
      for (_ <- 0 until bins) all.add(value)
    }
    ofBins("worker_of_bin")(random.nextInt(workers).toLong)
    Seq("keys_of_bin", "bytes_of_bin", "bytes_written_of_bin")
      .foreach(ofBins(_)(random.nextInt(1 << 24).toLong))
    val ofWorkers = body.putArray("workers")
    for (worker <- 0 until workers)
      ofWorkers.addObject
        .put("worker", worker)
        .put("executor", s"${worker % 50}")
        .put("bins", bins / workers)
    body
  }
}
