// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{Parallel, Recovery, Settled, StateSweeper, SweptFiles}
import io.megaphone.format.{Compression, Compressions, FileName, Footer, StateName, StoreId}
import io.megaphone.state.Registry

/** How the files that nobody needs are deleted. */
final class StateSweeperSuite extends AnyFunSuite with SmallStore {
  private val width = 4

  /** Files of attempts that were not accepted, beside those of a store of a few batches. */
  private val orphans = Vector.tabulate(3 * width)(i => FileName(i % 2, StateName(0, s"orphan$i")))

  private class Orphans extends SweptFiles {
    val deleted = new ConcurrentLinkedQueue[FileName]
    var unfinishedBefore = -1L
    override def listed: Vector[FileName] = orphans
    override def delete(file: FileName): Unit = { deleted.add(file); () }
    override def deleteUnfinished(before: Long): Unit = unfinishedBefore = before
  }

  private def sweep(files: SweptFiles): Int = {
    val store = new Store
    val registry = new Registry
    for (v <- 0 until Footer.Slices)
      batch(store, registry, v.toLong, 2L * v, before, before, v.toByte)
    val settled = Settled(Footer.Slices.toLong, Map(0L -> before), Map.empty)
    val together = new Parallel.OnNewThreads(width)
    val recovery = new Recovery(store.files, Compressions(Compression.None), together)
    StateSweeper.sweep(0, StoreId(0, "default"), settled, settled, recovery, files)
  }

  test("Several files are deleted at once, because each may take several requests.") {
    val atOnce = new CountDownLatch(width)
    val files = new Orphans {
      override def delete(file: FileName): Unit = {
        atOnce.countDown()
        if (!atOnce.await(60, TimeUnit.SECONDS)) fail("The others wait for this one.")
        super.delete(file)
      }
    }
    assert(sweep(files) == orphans.size)
    assert(files.deleted.asScala.toSet == orphans.toSet)
  }

  test("A file that cannot be deleted keeps no other, and is told.") {
    val files = new Orphans {
      override def delete(file: FileName): Unit =
        if (file == orphans.head) throw new IOException("the store is busy") else super.delete(file)
    }
    assert(intercept[IOException](sweep(files)).getMessage == "the store is busy")
    assert(files.deleted.asScala.toSet == orphans.tail.toSet)
    assert(files.unfinishedBefore == Footer.Slices)
  }
}
