// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import com.fasterxml.jackson.databind.JsonNode

import io.megaphone.runtime.Loss
import io.megaphone.spark.faces.events.Bodies
import io.megaphone.view.{DrainRow, RelocationRow}

/** Reads what is known of a run from the bodies of its events. */
private[faces] object FactsReader {

  def query(run: String, startedMs: Long, body: JsonNode): QueryFacts = {
    val f = new Fields(body)
    QueryFacts(
      run,
      f.text("query_id"),
      f.optionalText("name"),
      f.optionalText("provider"),
      startedMs
    )
  }

  def end(timeMs: Long, body: JsonNode): EndFacts =
    EndFacts(timeMs, new Fields(body).optionalText("error"))

  def group(body: JsonNode): GroupFacts = {
    val f = new Fields(body)
    def known(name: String) = f.longs(name).map(size => Option.when(size != Bodies.Unknown)(size))
    GroupFacts(
      f.long("operator"),
      f.text("name"),
      f.optionalLong("batch"),
      f.ints("worker_of_bin"),
      Map(
        Measure.Bytes -> known("bytes_of_bin"),
        Measure.Keys -> known("keys_of_bin"),
        Measure.Written -> known("bytes_written_of_bin")
      ),
      f.ints("moving").zip(f.ints("targets")).toMap,
      f.ints("arrived").toSet,
      f.all("workers").map { w =>
        WorkerFacts(
          w.int("worker"),
          w.optionalText("executor"),
          w.int("bins"),
          w.long("keys"),
          w.long("bytes"),
          w.int("standbys"),
          w.int("bins_incomplete"),
          w.long("bytes_to_come")
        )
      }
    )
  }

  def plan(body: JsonNode): PlanFacts = {
    val f = new Fields(body)
    PlanFacts(
      f.text("id"),
      f.text("status"),
      f.optionalText("reason"),
      f.text("strategy"),
      f.text("mode"),
      f.int("steps"),
      f.int("steps_done"),
      f.int("moves"),
      f.int("moves_done"),
      f.int("batches_left"),
      f.longs("batches"),
      f.ints("workers_before"),
      f.ints("workers_after"),
      f.optionalLong("seen_at")
    )
  }

  def step(body: JsonNode): StepFacts = {
    val f = new Fields(body)
    StepFacts(
      f.text("plan"),
      f.long("operator"),
      f.int("step"),
      f.long("batch"),
      f.int("moved"),
      f.int("stayed"),
      f.long("bytes_from_peer"),
      f.long("bytes_from_checkpoint"),
      f.long("wait_ms")
    )
  }

  def recovery(body: JsonNode): RecoveryFacts = {
    val f = new Fields(body)
    RecoveryFacts(
      f.long("batch"),
      f.int("workers"),
      f.long("bytes_from_checkpoint"),
      f.long("wait_ms")
    )
  }

  def demand(body: JsonNode): DemandFacts = {
    val f = new Fields(body)
    DemandFacts(f.long("batch"), f.int("sub_bins"), f.long("wait_ms"))
  }

  def batch(body: JsonNode): BatchFacts = {
    val f = new Fields(body)
    BatchFacts(
      f.long("batch"),
      f.long("duration_ms"),
      f.long("rows")
    )
  }

  def executors(body: JsonNode): Vector[ExecutorFacts] =
    new Fields(body).all("executors").map { f =>
      ExecutorFacts(
        f.text("executor"),
        f.text("host"),
        f.int("replicas"),
        f.int("blocks"),
        f.long("bytes"),
        f.long("bytes_on_disk"),
        f.long("budget"),
        f.text("state")
      )
    }

  def drains(body: JsonNode): Vector[DrainRow] = new Fields(body).all("drains").map { f =>
    DrainRow(
      f.text("executor"),
      f.text("cause"),
      f.text("status"),
      f.int("workers"),
      f.long("seconds"),
      f.optionalText("reason"),
      f.boolean("release")
    )
  }

  def relocation(body: JsonNode): RelocationRow = {
    val f = new Fields(body)
    RelocationRow(
      f.long("id"),
      f.long("operator"),
      f.int("worker"),
      f.text("source"),
      f.text("target"),
      f.text("why"),
      f.text("status"),
      f.optionalLong("bytes"),
      f.optionalLong("bytes_ready"),
      f.optionalLong("batch"),
      f.optionalText("reason")
    )
  }

  def loss(body: JsonNode): Loss = {
    val f = new Fields(body)
    Loss(f.text("executor"), f.long("batch"), f.int("workers"), f.int("promoted"))
  }
}
