// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.nio.file.{Files, Path}
import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.megaphone.log.{BinLog, BinLogModel, Bytes}
import io.megaphone.log.record.{Record, Words}

/** State larger than the budget stays within it on the heap, and is read as it was written. */
class HeapBudgetSuite extends AnyFunSuite {
  import HeapBudgetSuite._

  private val MiB = 1L << 20

  private def key(i: Int): Array[Byte] = f"key $i%09d".getBytes
  private def value(i: Int, round: Int): Array[Byte] = Bytes.random(80, i.toLong * 31 + round)
  private def put(log: BinLog, i: Int, round: Int): Unit =
    log.put(0, key(i), 0, 13, value(i, round), 0, 80)
  private def isThere(log: BinLog, i: Int, round: Int): Boolean =
    BinLogModel.valueOf(log, 0, key(i)).contains(Bytes.of(value(i, round)))

  test(
    "ten times the budget is put, read, overwritten, removed and compacted, " +
      "while the pages on the heap stay near the budget"
  ) {
    withFolder { folder =>
      val budget = new HeapBudget(4 * MiB, new SpillFiles(Seq(folder)))
      val logs = Vector.fill(8)(new BinLog(budget))
      val keys = 450000
      def logOf(i: Int) = logs(i % 8)
      for (i <- 0 until keys) put(logOf(i), i, 0)
      logs.foreach(_.settle())
      val live = logs.map(_.liveBytes).sum
      assert(live > 10 * budget.budgetBytes)
      def onHeap = logs.map(l => l.heapBytes).sum
      // A word for each slot, at most twice as many slots as keys, and the undo list.
      val indexes = 16L * keys * 2
      assert(
        onHeap - indexes < 2 * budget.budgetBytes,
        s"$onHeap bytes, of which up to $indexes are indexes"
      )
      assert(budget.bytesOnDisk > live - 2 * budget.budgetBytes)
      for (i <- 0 until keys by 7) assert(isThere(logOf(i), i, 0))
      for (i <- 0 until keys by 3) put(logOf(i), i, 1)
      for (i <- 1 until keys by 3) assert(logOf(i).remove(0, key(i), 0, 13))
      logs.foreach(_.undo())
      for (i <- 0 until keys by 11) assert(isThere(logOf(i), i, 0))
      for (i <- 0 until keys by 3) put(logOf(i), i, 1)
      logs.foreach { log =>
        log.settle()
        log.compact()
      }
      for (i <- 0 until keys by 5) assert(isThere(logOf(i), i, if (i % 3 == 0) 1 else 0))
      assert(onHeap - indexes < 2 * budget.budgetBytes)
    }
  }

  test("a page returns to the heap when it is read and there is room for it again") {
    withFolder { folder =>
      val budget = new HeapBudget(MiB, new SpillFiles(Seq(folder)))
      val (rests, other) = (new BinLog(budget), new BinLog(budget))
      for (i <- 0 until 5000) put(rests, i, 0)
      rests.settle()
      rests.spill(Long.MaxValue)
      val small = rests.heapBytes
      budget.measure(MiB)
      assert(
        isThere(rests, 100, 0) && rests.heapBytes == small,
        "no room: the record alone is read"
      )
      budget.measure(rests.heapBytes + other.heapBytes)
      for (i <- 0 until 5000) assert(isThere(rests, i, 0))
      assert(rests.heapBytes > rests.liveBytes, "all pages are back")
    }
  }

  test("what a thread has spilled is its own, and told to any other") {
    withFolder { folder =>
      val budget = new HeapBudget(MiB, new SpillFiles(Seq(folder)))
      def spillSome(): Unit = {
        val log = new BinLog(budget)
        for (i <- 0 until 5000) put(log, i, 0)
        log.settle()
        assert(log.spill(Long.MaxValue) > 0)
      }
      val here = budget.spilledHere
      val before = here()
      val other = new Thread(() => spillSome())
      other.start()
      other.join()
      assert(budget.bytesOnDisk > 0 && here() == before)
      spillSome()
      val told = new java.util.concurrent.CompletableFuture[Long]
      new Thread(() => { told.complete(here()); () }).start()
      assert(told.join() > before)
    }
  }

  test("the bytes reported for pages are those that they hold, after any operations") {
    withFolder { folder =>
      val budget = new HeapBudget(Long.MaxValue, new SpillFiles(Seq(folder)), pageBytesMin = 256)
      val pages = new Pages(budget)
      val random = new scala.util.Random(2)
      var ends = List((0, 0)) // begin and end of each record, newest first
      def append(records: Int) = for (_ <- 0 until records) {
        val bytes = 16 + 8 * random.nextInt(if (random.nextInt(20) == 0) 2000 else 40)
        val position = pages.reserve(bytes)
        Words.set(
          pages.page(position),
          pages.offset(position),
          Record.header(0, Record.Put, 8, bytes - 16)
        )
        ends ::= ((position, pages.end))
      }
      def arrays = if (pages.end == 0) 0
      else {
        val (position, end) = ends.find(_._2 == pages.end).get
        val unused = pages.page(position).length - pages.offset(position) - (end - position) * 8
        pages.bytesOf(0, pages.end) + unused - pages.bytesOnDisk
      }
      append(300)
      for (round <- 0 until 200) {
        val settled = pages.end
        append(random.nextInt(100))
        if (random.nextBoolean()) pages.spill(random.nextInt(50000).toLong)
        if (random.nextBoolean()) pages.truncate(if (random.nextInt(9) == 0) 0 else settled)
        if (random.nextInt(5) == 0 && pages.end > 0) pages.page(0)
        if (random.nextInt(9) == 0) budget.measure(arrays)
        assert(budget.heldBytes == arrays, s"after round $round")
      }
    }
  }

  test("workers spill the excess in proportion to their shares, and a load in progress counts") {
    val budget = new HeapBudget(1000, new SpillFiles(Seq.empty))
    budget.measure(900)
    assert(budget.share(500) == 0)
    budget.measure(1800)
    assert(budget.share(600) == 300 && budget.share(1800) == 900)
    budget.loading { load =>
      val log = load.add(new BinLog(budget))
      budget.measure(900)
      assert(budget.heldBytes == 900 + log.heapBytes)
    }
    budget.measure(900)
    assert(budget.heldBytes == 900)
  }

  test(
    "if a folder fails the next is used; if all fail the error says so, and the log is unchanged"
  ) {
    withFolder { folder =>
      val missing = folder.resolve("missing")
      val log = new BinLog(new HeapBudget(0, new SpillFiles(Seq(missing, folder))))
      for (i <- 0 until 5000) put(log, i, 0)
      assert(isThere(log, 0, 0) && log.heapBytes < log.liveBytes)

      val budget = new HeapBudget(0, new SpillFiles(Seq(missing)))
      val full = new BinLog(budget)
      put(full, 0, 0)
      full.settle()
      val held = budget.heldBytes
      val error = intercept[SpillException](for (i <- 0 until 5000) put(full, i, 1))
      for (_ <- 0 until 3) intercept[SpillException](for (i <- 0 until 5000) put(full, i, 1))
      assert(
        error.getMessage.contains("could not be written to") &&
          error.getMessage.contains("more local disk") && error.getMessage.contains("missing")
      )
      full.undo()
      assert(
        full.keyCount == 1 && isThere(full, 0, 0) && budget.heldBytes >= held &&
          budget.heldBytes <= PageLayout.slotBytes(0)
      )
    }
  }

  test("while garbage is collected because the disk is full, who has room does not wait") {
    withFolder { folder =>
      val (begun, mayEnd) = (new CountDownLatch(1), new CountDownLatch(1))
      val missing = folder.resolve("missing")
      val files = new SpillFiles(
        Seq(missing),
        collectGarbage = () => { begun.countDown(); mayEnd.await() }
      )
      val page = new Array[Byte](1000)
      val threads = Executors.newCachedThreadPool()
      try {
        val first = threads.submit(() => files.write(page))
        assert(begun.await(60, TimeUnit.SECONDS))
        Files.createDirectory(missing)
        assert(threads.submit(() => files.write(page)).get(60, TimeUnit.SECONDS).length == 1000)
        mayEnd.countDown()
        assert(first.get(60, TimeUnit.SECONDS).length == 1000)
      } finally { mayEnd.countDown(); threads.shutdown() }
    }
  }

  test("without a folder, what has to leave memory is an error that says so") {
    val log = new BinLog(new HeapBudget(0, new SpillFiles(Seq.empty)))
    val error = intercept[SpillException](for (i <- 0 until 5000) put(log, i, 0))
    assert(
      error.condition == "SPILL_NOT_WRITTEN" && error.getMessage.contains("has no local folder")
    )
  }

  test("a compaction that finds no room leaves the log unchanged") {
    val budget = new HeapBudget(4 * MiB, new SpillFiles(Seq(java.nio.file.Paths.get("/nowhere"))))
    val log = new BinLog(budget)
    for (i <- 0 until 5000) put(log, i, 0)
    for (i <- 0 until 5000 by 2) put(log, i, 1)
    log.settle()
    budget.measure(5 * MiB)
    assertThrows[SpillException](log.compact())
    for (i <- 0 until 5000) assert(isThere(log, i, if (i % 2 == 0) 1 else 0))
    budget.measure(log.heapBytes)
    log.compact()
    for (i <- 0 until 5000) assert(isThere(log, i, if (i % 2 == 0) 1 else 0))
    assert(log.prefix().length == log.liveBytes)
  }

  test(
    "an interrupted thread does not break the writes of others, nor is the disk taken for full"
  ) {
    withFolder { folder =>
      val spillFiles = new SpillFiles(Seq(folder))
      val page = Bytes.random(1000, 1)
      val first = spillFiles.write(page)
      Thread.currentThread.interrupt()
      val second =
        try spillFiles.write(page)
        finally Thread.interrupted()
      assert(Seq(first, second, spillFiles.write(page)).forall(_.read(0, 1000).sameElements(page)))
    }
  }

  test("files have no name, and a page knows if few live pages are left in its file") {
    withFolder { folder =>
      val spillFiles = new SpillFiles(Seq(folder), fileBytes = 1 << 14)
      val page = Bytes.random(1000, 1)
      var spilled = Vector.fill(40)(spillFiles.write(page))
      assert(Files.list(folder).count() == 0)
      assert(spillFiles.liveBytes == 40 * 1000 && !spilled.exists(_.isThin))
      // One of a full file, and one of the file that is being written.
      spilled = Vector(spilled(0), spilled(39))
      eventually(timeout(60.seconds)) {
        System.gc()
        assert(spillFiles.liveBytes == 2000)
      }
      assert(spilled.map(_.isThin) == Vector(true, false))
      assert(spilled.forall(p => p.read(0, 1000).sameElements(page)))
    }
  }

  test("the thread that frees spilled pages ends once nobody refers to them") {
    withFolder { folder =>
      val before = cleaners
      assert((spillOnce(folder) -- before).size == 1)
      eventually(timeout(60.seconds)) {
        System.gc()
        assert((cleaners -- before).isEmpty)
      }
    }
  }

  private def cleaners: Set[Thread] =
    Thread.getAllStackTraces.keySet.asScala.filter(_.getName.startsWith("Cleaner-")).toSet

  /** The cleaners while a page is on disk, to which nobody refers afterwards. */
  private def spillOnce(folder: Path): Set[Thread] = {
    val page = new SpillFiles(Seq(folder)).write(new Array[Byte](1000))
    val found = cleaners
    assert(page.length == 1000)
    found
  }

  test("a log's pages in files with few live pages are rewritten") {
    withFolder { folder =>
      val spillFiles = new SpillFiles(Seq(folder), fileBytes = 1 << 16)
      val pages = new Pages(new HeapBudget(0, spillFiles, pageBytesMin = 256))
      val filled = Vector.fill(30) {
        val position = pages.reserve(200)
        Words.set(
          pages.page(position),
          pages.offset(position),
          Record.header(0, Record.Put, 96, 96)
        )
        Words.set(pages.page(position), pages.offset(position) + 8, position.toLong)
        position
      }
      pages.spill(Long.MaxValue)
      val mine = spillFiles.liveBytes
      var others = Vector.fill(100)(spillFiles.write(new Array[Byte](1000)))
      val all = spillFiles.liveBytes
      pages.repack()
      assert(spillFiles.liveBytes == all, "nothing is thin yet")
      others = Vector.empty
      eventually(timeout(60.seconds)) {
        System.gc()
        assert(spillFiles.liveBytes == mine)
      }
      pages.repack()
      assert(
        spillFiles.liveBytes > mine,
        "the pages are on disk twice until the old ones are collected"
      )
      assert(filled.forall(p => Words.get(pages.page(p), pages.offset(p) + 8) == p))
      assert(others.isEmpty)
    }
  }
}

object HeapBudgetSuite {
  def withFolder[A](body: Path => A): A = {
    val folder = Files.createTempDirectory("megaphone-space")
    try body(folder)
    finally {
      val left = Files.list(folder)
      left.forEach(f => Files.delete(f))
      left.close()
      Files.delete(folder)
    }
  }
}
