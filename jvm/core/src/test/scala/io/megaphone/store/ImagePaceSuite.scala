// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format._
import io.megaphone.log.BinLog
import io.megaphone.routing.RoutingTable

/** How long chains become, and how many images a commit writes. */
class ImagePaceSuite extends AnyFunSuite {
  import ImagePaceSuite._

  test("bins whose chains have grown together, by small changes to much state, are written whole a few a commit") {
    val (binsCount, framesMax) = (256, 32)
    val worker = new Worker(binsCount, framesMax)
    worker.fill()
    val images = for (commit <- 1 to 300) yield {
      worker.bins.foreach(worker.put(_, key = 0, valueBytes = 8))
      val frames = worker.commit().frames
      assert(frames.size == binsCount)
      assert(frames.count(_.isImage) <= binsCount / 10, s"images in commit $commit")
      assert(worker.longest <= 2 * framesMax, s"frames after commit $commit")
      frames.count(_.isImage)
    }
    assert(images.sum <= binsCount * images.size / framesMax, "a bin is written whole before it has so many frames")
  }

  test("no chain has more than twice as many frames as the setting, whatever changes and however much of it") {
    for (framesMax <- 2 to 12; seed <- 0 to 1) {
      val random = new Random(100L * framesMax + seed)
      val worker = new Worker(binsCount = 32, framesMax)
      worker.fill()
      var changing = worker.bins
      var rowBytesMax = 8
      val longest = for (commit <- 1 to 300) yield {
        if (commit > 3 * framesMax && random.nextInt(15) == 0) { // until then all chains grow at once, by little
          changing = random.shuffle(worker.bins).take(Seq(worker.bins.size, 5, 1)(random.nextInt(3)))
          rowBytesMax = Seq(8, 2000)(random.nextInt(2))
        }
        for (bin <- changing; _ <- 0 to random.nextInt(2)) {
          val key = random.nextInt(20)
          if (random.nextInt(8) == 0) worker.remove(bin, key) else worker.put(bin, key, random.nextInt(rowBytesMax))
        }
        worker.commit()
        assert(worker.longest <= 2 * framesMax, s"frames, of at most $framesMax, with seed $seed, after commit $commit")
        worker.longest
      }
      assert(longest.max > framesMax, "the bound was never near")
    }
  }

  test("the setting says how long chains become") {
    for (framesMax <- Seq(2, 5, 12, 32)) {
      val worker = new Worker(binsCount = 16, framesMax)
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

private object ImagePaceSuite {

  /** A worker that has all bins, and whose files nobody reads. */
  final class Worker(binsCount: Int, framesMax: Int) {
    private val table = RoutingTable.roundRobin(binsCount, 1)
    private val committer = new Committer(Nowhere, Compression.None, Committer.Limits(framesMax))
    private val holding = new Holding(0, binsCount)
    val bins: Vector[Int] = (0 until binsCount).toVector
    holding.restart(StateName(0, StateName.FixedId), Vector.empty)
    bins.foreach(bin => holding.put(bin, new BinLog, Chain.Empty))

    /** A commit that makes each bin large beside what a batch of small rows adds to all. */
    def fill(): Unit = { bins.foreach(put(_, key = -1, valueBytes = 8192)); commit(); () }

    def put(bin: Int, key: Int, valueBytes: Int): Unit = {
      val name = s"key $key".getBytes
      holding.touch(bin)
      holding.log(bin).put(0, name, 0, name.length, new Array[Byte](valueBytes), 0, valueBytes)
    }

    def remove(bin: Int, key: Int): Unit = {
      val name = s"key $key".getBytes
      holding.touch(bin)
      holding.log(bin).remove(0, name, 0, name.length)
      ()
    }

    /** Commits what has changed, and settles it. */
    def commit(): Footer = {
      val version = holding.base.version
      val turn = Turn(StoreKey("run", 0, "default"), version, table, table, Vector.empty)
      val committed = committer(holding, turn, StateName(version + 1, StateName.FixedId), WriterId(0, 0))
      holding.settle()
      committed.footer
    }

    /** Frames of the longest chain. */
    def longest: Int = bins.iterator.map(holding.chain(_).frameCount).max
  }

  private object Nowhere extends StateFiles {
    def create(file: FileName): AtomicOutput = new AtomicOutput {
      def write(b: Int): Unit = ()
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = ()
      def cancel(): Unit = ()
    }
    def open(file: FileName): FileSource = throw new MissingFileException(file.toString)
  }
}
