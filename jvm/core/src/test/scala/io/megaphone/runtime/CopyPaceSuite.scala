// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{StateName, StoreId}
import io.megaphone.pace.{CopyRate, TransferRate}
import io.megaphone.plan.{Move, RoutingTable, Step, StepId, TransferMode}
import io.megaphone.protocol.{Announced, Protocol}
import io.megaphone.state.{ForStep, Reached, ReplicaKey}

class CopyPaceSuite extends AnyFunSuite {
  private val group = 0L
  private val table = RoutingTable.roundRobin(16, 4)
  private val bytesOfWorker = 1L << 40
  private val quietMs = 500L

  private val someImages = Map((StoreId(0, "default"), 0) -> StateName(3, ""))

  private def decisionOf(
      batch: Long,
      executors: Vector[String],
      announced: Vector[Announced],
      incomplete: Map[Long, Set[Int]] = Map.empty,
      table: RoutingTable = table,
      bytesOfWorker: Long = bytesOfWorker
  ): Protocol.Decision = {
    val tables = Map(group -> table)
    val bytes = (0 until 4).map((group, _) -> bytesOfWorker).toMap
    val planned =
      Protocol.Batch(batch, isOwn = true, Map.empty, Map(group -> executors), bytes)
    Protocol.Decision(planned, tables, tables, Vector.empty, announced, incomplete)
  }

  /** Bytes a second, if these moves are announced once it is known what quiet batches take. */
  private def rate(
      executors: Vector[String],
      moves: Vector[Move],
      mode: TransferMode = TransferMode.Prepared,
      images: Map[(StoreId, Int), StateName] = someImages
  ): Long = {
    val pace = new CopyPace(TransferRate.Settings(slowdown = 0.1))
    def plan(batch: Long, announced: Vector[Announced]): Unit = pace.planned(
      decisionOf(batch, executors, announced),
      announced.map(_.id).toSet,
      hasStandbysToMake = false
    )
    for (batch <- 0L to 2L) { plan(batch, Vector.empty); pace.batchEnded(batch, quietMs) }
    plan(
      3,
      Vector(Announced(StepId("p", group, 0), Step(moves, 4), mode, 3, images))
    )
    pace.copyRate.besideTasks
  }

  test("the rate is at least what the busiest executor needs so that its copies are of use") {
    val binBytes = bytesOfWorker / 4
    val twoEnds = Vector(Move(0, 1), Move(1, 0)) // each worker gives a bin and gets one
    def inBatches(bytes: Long) = bytes * 1000 / quietMs / 64
    assert(rate(Vector("a", "b", "a", "b"), twoEnds) == inBatches(2 * binBytes))
    assert(rate(Vector("a", "b", "c", "d"), twoEnds :+ Move(2, 3)) == inBatches(2 * binBytes))
    assert(rate(Vector("a", "b", "a", "b"), twoEnds :+ Move(2, 3)) == inBatches(3 * binBytes))
    assert(rate(Vector.empty, twoEnds) == inBatches(4 * binBytes), "places are not known")
  }

  test("what is not copied ahead does not count") {
    val first = 8 << 20
    assert(rate(Vector("a", "a", "a", "a"), Vector(Move(0, 1))) == first, "it is on one executor")
    val onDemand = TransferMode.OnDemand
    assert(rate(Vector("a", "b", "a", "b"), Vector(Move(0, 1)), onDemand, Map.empty) == first)
  }

  test("a step that is of files may take any time, and has no image that batches do not bear") {
    val many = RoutingTable.roundRobin(4096, 4) // bins of 1 MiB
    val moves = many.binsOf(0).map(Move(_, 1)).toVector
    def rateWith(images: Map[(StoreId, Int), StateName]): Long = {
      val pace = new CopyPace(TransferRate.Settings(slowdown = 0.1))
      val step =
        Announced(StepId("p", group, 0), Step(moves, 4), TransferMode.Prepared, 3, images)
      for ((batch, steps) <- Seq(0L -> None, 1L -> None, 2L -> None, 3L -> Some(step))) {
        val decision = decisionOf(
          batch,
          Vector("a", "b"),
          steps.toVector,
          table = many,
          bytesOfWorker = 1L << 30
        )
        pace.planned(decision, Set.empty, hasStandbysToMake = false)
        if (steps.isEmpty) pace.batchEnded(batch, quietMs)
      }
      pace.copyRate.besideTasks
    }
    assert(rateWith(someImages) == (1L << 30) / 64 * 1000 / quietMs)
    assert(rateWith(Map.empty) == (8 << 20), "the rate that batches bear")
    def imagesMax(settings: TransferRate.Settings, batches: Long, slowBatches: Int = 0) = {
      val pace = new CopyPace(settings)
      for (batch <- 0L until batches) {
        val decision = decisionOf(batch, Vector("a", "b"), Vector.empty)
        pace.planned(decision, Set.empty, hasStandbysToMake = false)
        pace.batchEnded(batch, quietMs)
      }
      for (batch <- batches until batches + slowBatches) {
        val decision = decisionOf(batch, Vector("a", "b"), Vector.empty, Map(group -> Set(0)))
        pace.planned(decision, Set.empty, hasStandbysToMake = false)
        pace.besideTasks("a", (batch + 1) << 30)
        pace.batchEnded(batch, 3 * quietMs)
      }
      pace.imageBytesMax
    }
    val paced = TransferRate.Settings(slowdown = 0.1)
    assert(imagesMax(paced, 3) == 48 * (8 << 20) * quietMs / 1000)
    assert(imagesMax(paced, 3, slowBatches = 9) == imagesMax(paced, 3), "the rate is lower now")
    assert(imagesMax(paced.copy(maxBytesPerSecond = 1000), 3) == 48 * 1000 * quietMs / 1000)
    assert(imagesMax(paced, 2) == Long.MaxValue, "it is not known what a batch takes")
    assert(imagesMax(TransferRate.Settings(), 3) == Long.MaxValue, "copies keep to no rate")
    assert(
      imagesMax(TransferRate.Settings(maxBytesPerSecond = 1000), 3) == 48 * 1000 * quietMs / 1000
    )
  }

  test("the tails that a replica gets between two slices are progress") {
    val pace = new CopyPace(TransferRate.Settings())
    val step = StepId("p", group, 0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)
    pace.planned(decisionOf(30, Vector("a", "b"), Vector.empty), Set(step), false)
    def isProgress(version: Long, binsLacking: Int) =
      pace.reported("a", Vector.empty, Vector(Reached(key, version, binsLacking)))
    assert(isProgress(30, 2) && !isProgress(30, 2))
    assert(isProgress(10, 1) && isProgress(20, 1) && !isProgress(20, 1) && isProgress(10, 0))
    assert(!isProgress(30, 1) && !isProgress(30, 7), "it is made again")
    assert(isProgress(11, 0))
  }

  test("the rest of each step on demand comes about as fast, until it has come") {
    val pace = new CopyPace(TransferRate.Settings(slowdown = 0.1))
    def rateIn(batch: Long, live: Set[StepId], steps: Announced*): Long = {
      val decision = decisionOf(batch, Vector("a", "b", "a", "b"), Vector.empty)
      val planned = decision.copy(sealedSteps = steps.toVector)
      pace.planned(planned, live, hasStandbysToMake = false)
      val rate = pace.copyRate.besideTasks
      pace.batchEnded(batch, quietMs)
      rate
    }
    val (first, second) = (StepId("p", group, 0), StepId("p", group, 1))
    def step(id: StepId, mode: TransferMode, moves: Move*) =
      Announced(id, Step(moves.toVector, 4), mode, 3, Map.empty)
    for (batch <- 0L to 2L) rateIn(batch, Set.empty)
    val ofBin = bytesOfWorker / 4 * 1000 / quietMs / 64
    val two = step(first, TransferMode.OnDemand, Move(0, 1), Move(1, 0))
    assert(rateIn(3, Set(first), two) == 2 * ofBin)
    val one = step(second, TransferMode.OnDemand, Move(2, 3))
    assert(rateIn(4, Set(first, second), one) == 3 * ofBin)
    assert(rateIn(5, Set(second)) == ofBin)
    assert(rateIn(6, Set.empty) == (8 << 20))
    assert(rateIn(7, Set(first), step(first, TransferMode.Prepared, Move(0, 1))) == (8 << 20))
  }

  /** The pace of a run after ten quiet batches. */
  private final class Paced {
    val pace = new CopyPace(TransferRate.Settings(slowdown = 0.1))
    private var copied = 0L
    for (number <- 0L to 9L) batch(number, quietMs, Set.empty)

    def batch(number: Long, ms: Long, incomplete: Set[Int]): Unit = {
      pace.planned(
        decisionOf(number, Vector("a", "b", "a", "b"), Vector.empty, Map(group -> incomplete)),
        Set.empty,
        hasStandbysToMake = false
      )
      copied += (if (incomplete.isEmpty) 0 else 1L << 30)
      pace.besideTasks("a", copied)
      pace.batchEnded(number, ms)
    }
  }

  test("batches in which the rest of a step on demand comes are not quiet ones") {
    val paced = new Paced
    import paced._
    val before = pace.copyRate.besideTasks
    for (number <- 10L to 40L) batch(number, 2 * quietMs, Set(0))
    assert(pace.copyRate.besideTasks < before, "twice as slow is too slow")
  }

  test("batches in which copies keep to no rate say nothing of what batches bear") {
    val paced = new Paced
    import paced._
    val before = pace.copyRate
    pace.hurries(true)
    assert(pace.copyRate == CopyRate.Unlimited)
    for (number <- 10L to 40L) batch(number, 2 * quietMs, Set(0))
    pace.hurries(false)
    batch(41, 2 * quietMs, Set(0)) // it began in haste
    assert(pace.copyRate == before)
  }

  test("a replica that comes nearer to its source is progress, until it is there") {
    val pace = new CopyPace(TransferRate.Settings())
    val step = StepId("p", group, 0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)
    def isProgress(batch: Long, version: Long) = {
      pace.planned(
        decisionOf(batch, Vector("a", "b"), Vector.empty),
        Set(step),
        hasStandbysToMake = false
      )
      pace.reported("a", Vector.empty, Vector(Reached(key, version)))
    }
    assert(isProgress(30, 10), "it is there")
    assert(!isProgress(31, 11), "it goes on as fast as its source")
    assert(isProgress(31, 12) && !isProgress(31, 12) && isProgress(32, 31))
    assert(!isProgress(60, 40), "it was lost, and is made again")
    assert(isProgress(61, 61) && !isProgress(62, 62))
    assert(pace.reported("b", Vector.empty, Vector(Reached(key, 40))), "another executor makes it")
    val other = key.copy(purpose = ForStep(StepId("gone", group, 0), 1))
    assert(!pace.reported("a", Vector.empty, Vector(Reached(other, 62))), "nobody needs it")
  }

  test("an executor that makes a replica again copies nothing new, and another one does") {
    val pace = new CopyPace(TransferRate.Settings())
    val step = StepId("p", group, 0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)
    pace.planned(decisionOf(3, Vector("a", "b"), Vector.empty), Set(step), false)
    def isProgress(executor: String, bytes: Long, isSource: Boolean = false) =
      pace.reported(executor, Vector(Copied(key, isSource, bytes)), Vector.empty)
    assert(isProgress("a", 10) && !isProgress("a", 10) && !isProgress("a", 5))
    assert(isProgress("a", 5, isSource = true))
    assert(isProgress("b", 5) && !isProgress("a", 10) && isProgress("a", 11))
  }

  test("the rate of few bytes is the one that batches bear") {
    val first = rate(Vector("a", "b", "a", "b"), Vector.empty)
    assert(first == (8 << 20))
  }
}
