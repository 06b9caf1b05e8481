// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util.concurrent.{Callable, CountDownLatch, Executors, ExecutorService, TimeUnit}
import java.util.concurrent.atomic.AtomicReference

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.memory.Records

/** Other threads read a settled prefix without a lock or a copy while its log is written; its bytes
  * never change.
  */
class BinLogConcurrencySuite extends AnyFunSuite {
  import BinLogConcurrencySuite._

  private val ReadersCount = 3
  private val Rounds = 400
  private val RoundsKept = 24
  private val LogsCount = 2000000

  private def withThreads[A](body: ExecutorService => A): A = {
    val threads = Executors.newFixedThreadPool(ReadersCount)
    try body(threads)
    finally {
      threads.shutdownNow()
      assert(threads.awaitTermination(60, TimeUnit.SECONDS))
    }
  }

  private def change(log: BinLog, random: Random): Unit = {
    val key = Bytes.random(8 + random.nextInt(9), random.nextInt(300).toLong)
    if (random.nextInt(4) == 0) log.remove(random.nextInt(2), key, 0, key.length)
    else {
      val value = Bytes.random(
        if (random.nextInt(200) == 0) 20000 else random.nextInt(100),
        random.nextLong()
      )
      log.put(random.nextInt(2), key, 0, key.length, value, 0, value.length)
    }
  }

  /** Writes some batches, undoes some of them, compacts at times, and leaves a tail. */
  private def writeRound(log: BinLog, random: Random): Unit = {
    log.undo()
    for (_ <- 0 until 3) {
      for (_ <- 0 until random.nextInt(60)) change(log, random)
      if (random.nextInt(3) == 0) log.undo() else log.settle()
    }
    if (random.nextInt(4) == 0) log.compact()
    for (_ <- 0 until random.nextInt(60)) change(log, random)
  }

  test("the heap bytes of a log that another thread has just begun to fill can be asked for") {
    // No volatile field: the reader may see an object before what its constructor has written.
    final class Shared { var log = new BinLog }
    val shared = new Shared
    val key = Bytes.random(8, 1)
    withThreads { threads =>
      val done = new AtomicReference(false)
      val started = new CountDownLatch(ReadersCount - 1)
      val asked = (0 until ReadersCount - 1).map(_ =>
        threads.submit((() => {
          started.countDown()
          var sum = 0L
          do sum += shared.log.heapBytes while (!done.get)
          sum
        }): Callable[Long])
      )
      try {
        assert(started.await(60, TimeUnit.SECONDS))
        for (_ <- 0 until LogsCount) {
          val log = new BinLog
          shared.log = log
          log.put(0, key, 0, key.length, key, 0, key.length)
          log.append(0, key, 0, key.length, key, 0, key.length)
        }
      } finally done.set(true)
      asked.foreach(reader => assert(reader.get(60, TimeUnit.SECONDS) > 0))
    }
  }

  test(
    "the bytes of a prefix do not change under its readers " +
      "while the writer appends, undoes, settles and compacts"
  ) {
    val published = new AtomicReference(Vector.empty[Taken])
    val done = new AtomicReference(false)
    val started = new CountDownLatch(ReadersCount)
    val readBeforeTheEnd = new CountDownLatch(ReadersCount)

    def read(taken: Taken): Boolean =
      taken.records.length == taken.bytes.length &&
        java.util.Arrays.equals(taken.records.toBytes, taken.bytes)

    def reader(seed: Long): Callable[Int] = () => {
      val random = new Random(seed)
      var reads = 0
      started.countDown()
      while (!done.get) {
        val all = published.get
        if (all.nonEmpty) {
          if (!read(all(random.nextInt(all.length))))
            throw new AssertionError(s"a prefix changed under reader $seed")
          reads += 1
          readBeforeTheEnd.countDown()
        }
      }
      if (!published.get.forall(read))
        throw new AssertionError(s"a prefix had changed in the end, for reader $seed")
      reads
    }

    withThreads { threads =>
      val readers = (1 to ReadersCount).map(seed => threads.submit(reader(seed.toLong)))
      try {
        started.await()
        val log = new BinLog
        val random = new Random(42)
        var round = 0
        while (round < Rounds || readBeforeTheEnd.getCount > 0) {
          writeRound(log, random)
          val prefix = log.prefix()
          published.set((Taken(prefix, prefix.toBytes) +: published.get).take(RoundsKept))
          round += 1
          if (readers.exists(_.isDone)) readers.foreach(_.get) // one failed: say why
        }
      } finally done.set(true)
      assert(readers.map(_.get).forall(_ > 0))
    }
  }

  test("a prefix that another thread reads only after many changes of the log is unchanged") {
    withThreads { threads =>
      val log = new BinLog
      val random = new Random(7)
      for (_ <- 0 until 20) {
        for (_ <- 0 until 200) change(log, random)
        log.settle()
        val expected = log.prefix().toBytes
        val changed = new CountDownLatch(1)
        val prefix = log.prefix()
        val late = threads.submit((() => {
          changed.await()
          prefix.toBytes
        }): Callable[Array[Byte]])
        for (_ <- 0 until 5) writeRound(log, random)
        log.undo()
        changed.countDown()
        assert(java.util.Arrays.equals(late.get, expected))
      }
    }
  }
}

object BinLogConcurrencySuite {

  /** A prefix and the bytes it had when it was taken. */
  private final case class Taken(records: Records, bytes: Array[Byte])
}
