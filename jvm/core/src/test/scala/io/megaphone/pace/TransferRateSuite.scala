// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.pace.TransferRate.{Batch, Settings}

/** The rate of copies, against a cluster of dice in which copies slow batches down. */
class TransferRateSuite extends AnyFunSuite {
  private val MiB = (1 << 20).toDouble
  private val tenth = Settings(slowdown = 0.1)
  private def quiet(ms: Long) = Batch(ms, 0, hasStep = false, hasWork = false)
  private def busy(ms: Long, bytes: Long) = Batch(ms, bytes, hasStep = false, hasWork = true)

  test("the rate finds the one at which batches are as much slower as is allowed") {
    for (bearable <- Seq(3, 8, 20, 100).map(_ * MiB); noise <- Seq(0.0, 0.05, 0.1)) {
      val errors = for (seed <- 1 to 20) yield {
        val rates = new Cluster(bearable, noise, seed).rates(150).drop(100)
        rates.map(r => math.log(r / bearable)).sum / rates.size
      }
      val error = errors.sum / errors.size
      assert(math.abs(error) < 0.5, s"${bearable / MiB} MiB/s, noise $noise: $error")
    }
  }

  test("few batches are more than twice as much slower as is allowed") {
    for (bearable <- Seq(3, 20, 100).map(_ * MiB); noise <- Seq(0.05, 0.1)) {
      val rates = (1 to 20).flatMap(seed => new Cluster(bearable, noise, seed).rates(200).drop(50))
      val tooFast = rates.count(_ > 2 * bearable)
      assert(tooFast < 0.05 * rates.size, s"${bearable / MiB} MiB/s, noise $noise: $tooFast")
    }
  }

  test("the first batches of a plan are hardly ever more than three times as slow as is allowed") {
    for (noise <- Seq(0.0, 0.05, 0.1)) {
      val rates = (1 to 50).flatMap(seed => new Cluster(10 * MiB, noise, seed).rates(20))
      val tooFast = rates.count(_ > 3 * 10 * MiB)
      assert(tooFast < 0.05 * rates.size, s"noise $noise: $tooFast of ${rates.size}")
    }
  }

  test("the rate stays between its bounds, and under the user's") {
    val slow = busy(10000, 1L << 40)
    val idle = quiet(500)
    def after(settings: Settings, busy: Batch) =
      Seq
        .fill(300)(busy)
        .foldLeft(Seq.fill(5)(idle).foldLeft(TransferRate(settings))(_.after(_)))(
          _.after(_)
        )
    assert(after(tenth, slow).bytesPerSecond == MiB)
    val limited = tenth.copy(maxBytesPerSecond = 50 << 20)
    assert(after(limited, slow.copy(durationMs = 500)).copyRate() == CopyRate(50 << 20, 50 << 20))
    val below = tenth.copy(maxBytesPerSecond = 1000)
    assert(TransferRate(below).copyRate() == CopyRate(1000, 1000))
  }

  test("batches with a step, and copies that use little of the rate, do not raise it") {
    val begun = Seq
      .fill(5)(quiet(500))
      .foldLeft(TransferRate(tenth))(
        _.after(_)
      )
    val step = busy(500, 1L << 40).copy(hasStep = true)
    assert(begun.after(step) == begun)
    assert(begun.after(busy(500, 1 << 20)).bytesPerSecond == begun.bytesPerSecond)
    assert(begun.after(step.copy(hasStep = false)).bytesPerSecond > begun.bytesPerSecond)
  }

  test("before it is known what batches take, the rate is the lowest, and finds it out") {
    val unknown = TransferRate(tenth)
    assert(unknown.copyRate().besideTasks == MiB)
    val full = Seq.fill(5)(busy(500, 1L << 40)).foldLeft(unknown)(_.after(_))
    assert(full.copyRate().besideTasks == MiB, "batches that others slow down tell nothing")
    val lowest = Seq.fill(3)(busy(500, 1 << 19)).foldLeft(unknown)(_.after(_))
    assert(lowest.copyRate().besideTasks > MiB)
  }

  test("batches that become slower for another reason do not stop the copies for ever") {
    val begun = Seq.fill(33)(quiet(500)).foldLeft(TransferRate(tenth))(_.after(_))
    val slow = Iterator.iterate(begun) { rate =>
      rate.after(busy(1000, rate.bytesPerSecond.toLong))
    }
    assert(slow.slice(150, 200).exists(_.bytesPerSecond > 2 * MiB))
  }

  test("a batch that lasts an hour or no time, because the clock jumped, moves the rate little") {
    val begun = Seq.fill(33)(quiet(500)).foldLeft(TransferRate(tenth))(_.after(_))
    def full(rate: TransferRate, ms: Long) = busy(ms, rate.bytesPerSecond.toLong * 10)
    val steady = Seq.fill(5)(525L).foldLeft(begun)((rate, ms) => rate.after(full(rate, ms)))
    for (jumped <- Seq(0L, 3600000L)) {
      val later = (jumped +: Seq.fill(10)(525L)).foldLeft(steady) { (rate, ms) =>
        rate.after(quiet(jumped)).after(full(rate, ms))
      }
      val usual = Seq.fill(11)(525L).foldLeft(steady)((rate, ms) => rate.after(full(rate, ms)))
      val ratio = later.bytesPerSecond / usual.bytesPerSecond
      assert(ratio > 0.5 && ratio < 2, s"$jumped ms: $ratio")
    }
  }

  test("without an allowed slowdown copies are not paced") {
    val free = TransferRate(Settings())
    assert(free.copyRate() == CopyRate.Unlimited)
    assert(free.after(busy(500, 1L << 40)).copyRate() == CopyRate.Unlimited)
  }

  /** Copies at the bearable rate make a batch slower by a tenth, others in proportion. */
  private class Cluster(bearable: Double, noise: Double, seed: Long) {
    private val random = new Random(seed)
    private val baseMs = 500.0

    /** The rate in each of so many batches in which there is always something to copy. */
    def rates(batches: Int): Seq[Double] = {
      val idle = Seq.fill(20)(quiet(durationMs(0)))
      val begun = idle.foldLeft(TransferRate(tenth))(_.after(_))
      Iterator
        .iterate(begun) { rate =>
          val ms = durationMs(rate.bytesPerSecond)
          rate.after(busy(ms, (rate.bytesPerSecond * ms / 1000).toLong))
        }
        .take(batches)
        .map(_.bytesPerSecond)
        .toVector
    }

    private def durationMs(rate: Double): Long =
      (baseMs * (1 + 0.1 * rate / bearable) * math.exp(noise * random.nextGaussian())).toLong
  }
}
