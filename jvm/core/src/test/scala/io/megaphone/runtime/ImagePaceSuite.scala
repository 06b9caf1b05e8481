// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** How long chains become, and how many images a commit writes. */
class ImagePaceSuite extends AnyFunSuite {
  test(
    "images of bins whose chains grow together, by small changes, are spread over the commits"
  ) {
    val (binsCount, framesMax) = (256, 32)
    val worker = new LoneWorker(binsCount, framesMax)
    worker.fill()
    val images = for (commit <- 1 to 300) yield {
      worker.bins.foreach(worker.put(_, key = 0, valueBytes = 8))
      val frames = worker.commit().footer.frames
      assert(frames.size == binsCount)
      assert(frames.count(_.isImage) <= binsCount / 10, s"images in commit $commit")
      assert(worker.longest <= 2 * framesMax, s"frames after commit $commit")
      frames.count(_.isImage)
    }
    assert(
      images.sum <= binsCount * images.size / framesMax,
      "a bin is written whole before it has so many frames"
    )
  }

  test(
    "no chain has more than twice as many frames as the setting, whichever bins change"
  ) {
    for (framesMax <- 2 to 12; seed <- 0 to 1) {
      val random = new Random(100L * framesMax + seed)
      val worker = new LoneWorker(binsCount = 32, framesMax)
      worker.fill()
      var changing = worker.bins
      var rowBytesMax = 8
      val longest = for (commit <- 1 to 300) yield {
        // Until then all chains grow together, by small changes.
        if (commit > 3 * framesMax && random.nextInt(15) == 0) {
          changing =
            random.shuffle(worker.bins).take(Seq(worker.bins.size, 5, 1)(random.nextInt(3)))
          rowBytesMax = Seq(8, 2000)(random.nextInt(2))
        }
        for (bin <- changing; _ <- 0 to random.nextInt(2)) {
          val key = random.nextInt(20)
          if (random.nextInt(8) == 0) worker.remove(bin, key)
          else worker.put(bin, key, random.nextInt(rowBytesMax))
        }
        worker.commit()
        assert(
          worker.longest <= 2 * framesMax,
          s"frames, of at most $framesMax, with seed $seed, after commit $commit"
        )
        worker.longest
      }
      assert(longest.max > framesMax, "the bound was never near")
    }
  }

  test("bins that were incomplete for long get images one after the other, and all of them do") {
    val (binsCount, framesMax) = (256, 8)
    val worker = new LoneWorker(binsCount, framesMax)
    worker.fill()
    def frames(incomplete: Seq[Int]) = {
      worker.bins.foreach(worker.put(_, key = 0, valueBytes = 8))
      worker.commit(incomplete).footer.frames
    }
    val half = worker.bins.take(binsCount / 2)
    for (_ <- 1 to 5 * framesMax)
      assert(frames(half).forall(f => !f.isImage || !half.contains(f.bin)))
    val images = for (_ <- 1 to 8 * framesMax) yield frames(Nil).count(_.isImage)
    assert(images.max <= binsCount / 4)
    assert(worker.longest <= 2 * framesMax)
  }

  test("the setting says how long chains become") {
    for (framesMax <- Seq(2, 5, 12, 32)) {
      val worker = new LoneWorker(binsCount = 16, framesMax)
      worker.fill()
      val longest = for (_ <- 1 to 6 * framesMax) yield {
        worker.bins.foreach(worker.put(_, key = 0, valueBytes = 8))
        worker.commit()
        worker.longest
      }
      assert(longest.max >= framesMax && longest.max <= 2 * framesMax)
    }
  }
}
