// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.POJONode

import io.megaphone.protocol.PlanStatus
import io.megaphone.spark.faces.events.Bodies
import io.megaphone.view.{DrainRow, RelocationRow}

/** Reads the fields of an event's body. What is missing or of another type counts as 0, empty or
  * not known: an event may be damaged, or of another version.
  */
private[history] final class Fields(node: JsonNode) {
  def text(name: String): String = optionalText(name).getOrElse("")
  def optionalText(name: String): Option[String] =
    Option(node.path(name)).filter(_.isTextual).map(_.asText)
  def boolean(name: String): Boolean = node.path(name).asBoolean
  def int(name: String): Int = node.path(name).asInt
  def long(name: String): Long = node.path(name).asLong
  def optionalLong(name: String): Option[Long] =
    Option(node.path(name)).filter(_.isNumber).map(_.asLong)
  def ints(name: String): Vector[Int] = longs(name).map(_.toInt)

  /** Live, an array may be in the event as it was made; from a log it is always of nodes. */
  def longs(name: String): Vector[Long] = node.path(name) match {
    case live: POJONode =>
      live.getPojo match {
        case numbers: Array[Int] => numbers.iterator.map(_.toLong).toVector
        case numbers: Array[Long] => numbers.toVector
        case _ => Vector.empty
      }
    case other => other.asScala.iterator.map(_.asLong).toVector
  }
  def all(name: String): Vector[Fields] =
    node.path(name).asScala.iterator.map(new Fields(_)).toVector
}

/** A run of a query.
  *
  * @param provider
  *   the other provider that has its state; None if it is in bins
  */
final case class QueryFacts(
    run: String,
    id: String,
    name: Option[String],
    provider: Option[String],
    startedMs: Long
) {
  def title: String = name.filter(_.nonEmpty).getOrElse("unnamed query")
}

/** How a run ended.
  *
  * @param error
  *   what it failed with; None if it was stopped
  */
final case class EndFacts(timeMs: Long, error: Option[String])

final case class WorkerFacts(
    worker: Int,
    executor: Option[String],
    bins: Int,
    keys: Long,
    bytes: Long,
    standbys: Int = 0
)

/** Which size of a bin a drawing shows, and how large the bins are by it. */
sealed abstract class Measure(val name: String, val title: String)
object Measure {
  case object Bytes extends Measure("bytes", "bytes")
  case object Keys extends Measure("keys", "keys")
  case object Written extends Measure("written", "bytes written in a batch")
  val all: Vector[Measure] = Vector(Bytes, Keys, Written)

  /** The measure of a name; bytes if there is none. */
  def of(name: String): Measure = all.find(_.name == name).getOrElse(Bytes)
}

/** Where the bins of a group of operators are.
  *
  * @param sizes
  *   of each bin by each measure; None where it is not known
  * @param moving
  *   the bins that move with the next steps, and the workers they go to
  * @param arrived
  *   the bins that came with the last step
  */
final case class GroupFacts(
    operator: Long,
    name: String,
    batch: Option[Long],
    workerOfBin: Vector[Int],
    sizes: Map[Measure, Vector[Option[Long]]],
    moving: Map[Int, Int],
    arrived: Set[Int],
    workers: Vector[WorkerFacts]
) {
  def keys: Long = workers.map(_.keys).sum
  def bytes: Long = workers.map(_.bytes).sum
  def sizeOf(bin: Int, measure: Measure): Option[Long] = sizes(measure).lift(bin).flatten
}

final case class PlanFacts(
    id: String,
    status: String,
    reason: Option[String],
    strategy: String,
    mode: String,
    steps: Int,
    stepsDone: Int,
    moves: Int,
    movesDone: Int,
    batchesLeft: Int,
    batches: Vector[Long],
    workersBefore: Vector[Int],
    workersAfter: Vector[Int],
    seenAt: Option[Long]
) {
  def isOpen: Boolean = PlanFacts.Open(status)
}

object PlanFacts {
  private val Open = PlanStatus.all.filterNot(_.isFinal).map(_.name).toSet
}

final case class StepFacts(
    plan: String,
    operator: Long,
    step: Int,
    batch: Long,
    moved: Int,
    stayed: Int,
    bytesFromPeer: Long,
    bytesFromCheckpoint: Long,
    waitMs: Long
)

final case class RecoveryFacts(batch: Long, workers: Int, bytes: Long, waitMs: Long)

/** An executor that was lost with workers of the run.
  *
  * @param promoted
  *   how many of its workers went on where an executor stood by
  */
final case class LossFacts(executor: String, batch: Long, workers: Int, promoted: Int)

/** A batch, as Spark reports it. */
final case class BatchFacts(batch: Long, durationMs: Long, rows: Long)

final case class ExecutorFacts(
    executor: String,
    host: String,
    replicas: Int,
    blocks: Int,
    bytes: Long,
    bytesOnDisk: Long,
    budget: Long,
    state: String = ""
)

/** All that is known of a run; lists are in the order of time. */
final case class RunFacts(
    query: QueryFacts,
    end: Option[EndFacts],
    groups: Vector[GroupFacts],
    plans: Vector[PlanFacts],
    steps: Vector[StepFacts],
    recoveries: Vector[RecoveryFacts],
    batches: Vector[BatchFacts],
    executors: Vector[ExecutorFacts],
    relocations: Vector[RelocationRow] = Vector.empty,
    losses: Vector[LossFacts] = Vector.empty,
    drains: Vector[DrainRow] = Vector.empty
) {
  def keys: Long = groups.map(_.keys).sum
  def bytes: Long = groups.map(_.bytes).sum
  def openPlan: Option[PlanFacts] = plans.find(_.isOpen)
  def workers: Vector[WorkerFacts] = groups.flatMap(_.workers)

  /** How long the task that waited longest at a batch waited for bins. */
  def waitMs(batch: Long): Long = waits.getOrElse(batch, 0L)

  /** How many workers a batch placed on other executors. */
  def relocatedAt(batch: Long): Int = relocated.getOrElse(batch, 0)

  /** What was lost while a batch ran, or after it. */
  def lossesAt(batch: Long): Vector[LossFacts] = losses.filter(_.batch == batch)

  /** How many bins moved at a batch. */
  def movedAt(batch: Long): Int = moved.getOrElse(batch, 0)

  private lazy val relocated: Map[Long, Int] =
    relocations.flatMap(_.batch).groupMapReduce(identity)(_ => 1)(_ + _)
  private lazy val moved: Map[Long, Int] =
    steps.groupMapReduce(_.batch)(_.moved)(_ + _)
  private lazy val waits: Map[Long, Long] =
    (steps.map(s => s.batch -> s.waitMs) ++ recoveries.map(r => r.batch -> r.waitMs))
      .groupMapReduce(_._1)(_._2)(_ max _)

  /** The executors that have workers, in the order of their ids. */
  def hosts: Vector[String] = RunFacts.inOrder(workers.flatMap(_.executor).distinct)
}

object RunFacts {

  /** Ids of executors by number, as Spark counts them. */
  def inOrder(executors: Vector[String]): Vector[String] = executors.sortBy(e => (e.length, e))

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
          w.int("standbys")
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
      f.optionalLong("batch"),
      f.optionalText("reason")
    )
  }

  def loss(body: JsonNode): LossFacts = {
    val f = new Fields(body)
    LossFacts(f.text("executor"), f.long("batch"), f.int("workers"), f.int("promoted"))
  }
}
