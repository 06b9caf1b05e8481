// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{Callable, Executors}
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, CatchUp, Parallel, Recovery, StateFiles, Sweep}
import io.megaphone.errors.{DamagedFileException, PlanLogMismatchException}
import io.megaphone.format.{Compression, Compressions, FileName, FileSource, Footer, StateName}
import io.megaphone.log.BinLogModel.found
import io.megaphone.plan.{Move, RoutingTable}
import io.megaphone.state.Registry
import io.megaphone.testkit.PassedOn

/** Bins of many bytes are loaded side by side, with the same result. */
class RecoverySuite extends AnyFunSuite with SmallStore {

  private def withThreads(threads: Int)(body: (Parallel, AtomicInteger) => Unit): Unit = {
    val pool = Executors.newFixedThreadPool(threads)
    val most = new AtomicInteger
    val together = new Parallel {
      def width: Int = threads
      def apply[A](pieces: Seq[() => A]): Seq[A] = {
        most.getAndUpdate(math.max(_, pieces.size))
        try
          pool.invokeAll(pieces.map(p => (() => p()): Callable[A]).asJava).asScala.map(_.get).toSeq
        catch { case e: java.util.concurrent.ExecutionException => throw e.getCause }
      }
    }
    try body(together, most)
    finally { pool.shutdownNow(); () }
  }

  /** Worker 0 of the store after `batches` batches, each of which sets a large value in both of its
    * bins.
    */
  private def filled(store: Store, batches: Int, bytes: Int): FileName = {
    val registry = new Registry
    val lease = store.lease(registry, 0, 1)
    (0 until batches).map { v =>
      val turn = store.turn(v.toLong, before, before)
      store.open(registry, lease, turn)
      for (bin <- Seq(0, 2)) put(lease.holding, bin, key, Array.fill(bytes)((v + bin).toByte))
      store.commit(lease, turn).file
    }.last
  }

  test(
    "bins are loaded at once where they have many bytes, one after the other where they have few"
  ) {
    for ((bytes, expected) <- Seq((1 << 20) -> 2, 100 -> 1)) withThreads(3) { (together, _) =>
      val store = new Store
      val file = filled(store, 3, bytes)
      val pieces = new AtomicInteger
      val counting = new Parallel {
        def width: Int = together.width
        def apply[A](all: Seq[() => A]): Seq[A] = { pieces.set(all.size); together(all) }
      }
      val opened, closed = new AtomicInteger
      val counted = new StateFiles {
        def create(file: FileName): AtomicOutput = store.files.create(file)
        def open(file: FileName): FileSource = {
          opened.incrementAndGet()
          new PassedOn(store.files.open(file)) {
            override def close(): Unit = { closed.incrementAndGet(); super.close() }
          }
        }
      }
      val loaded = new Recovery(counted, Compressions(Compression.None), counting)
        .load(file, Seq(0, 2), before.contentHash)
      assert(pieces.get == expected)
      assert(opened.get == closed.get && opened.get >= 3 && opened.get <= 3 * expected)
      val one = store.recovery.load(file, Seq(0, 2), before.contentHash)
      assert(
        loaded.traffic == one.traffic && loaded.lineage == one.lineage && loaded.bins.keySet == Set(
          0,
          2
        )
      )
      for (bin <- Seq(0, 2)) {
        assert(get(loaded.bins(bin).log) == Some((2 + bin).toByte))
        assert(loaded.bins(bin).chain == one.bins(bin).chain)
      }
    }
  }

  test(
    "bins are loaded in parallel even if a late attempt rewrote a file, with a tail for each image"
  ) {
    withThreads(2) { (together, _) =>
      val store = new Store
      def batch(registry: Registry, attempt: Long, version: Int, isWhole: Boolean): FileName = {
        val lease = store.lease(registry, 0, attempt)
        val turn = store.turn(version.toLong, before, before)
        store.open(registry, lease, turn)
        for (bin <- Seq(0, 2)) {
          val value = Array.fill(if (version < 2) 1 << 20 else 1)((version + bin).toByte)
          put(lease.holding, bin, Array(math.min(version, 2).toByte), value)
        }
        val file = store.commit(lease, turn, isWhole).file
        lease.end()
        file
      }
      val (one, other) = (new Registry, new Registry)
      // By then each bin's chain has been listed, with the image of batch 1 in it.
      val last = Footer.Slices - 1
      val files =
        for (version <- 0 to last) yield batch(one, version.toLong, version, isWhole = version == 1)
      assert(batch(other, last + 1L, 1, isWhole = false) == files(1))
      val loading =
        Future(
          new Recovery(store.files, Compressions(Compression.None), together)
            .load(files(last), Seq(0, 2), before.contentHash)
        )(ExecutionContext.global)
      val loaded = Await.result(loading, 60.seconds)
      for (bin <- Seq(0, 2); (version, key) <- Seq(0, 1, last).zipWithIndex) {
        val log = loaded.bins(bin).log
        assert(
          found(log, 0, Array(key.toByte)).exists(at => at.bytes(at.valueOffset) == version + bin)
        )
      }
    }
  }

  test("each frame that is loaded is shown to the check, and nothing is loaded where that throws") {
    val store = new Store
    val file = filled(store, 3, 100)
    val shown = new AtomicInteger
    def load(check: Array[Byte] => Unit) =
      new Recovery(store.files, Compressions(Compression.None), check = check)
        .load(file, Seq(0, 2), before.contentHash)
        .bins
    val chains =
      load(records => { assert(records.nonEmpty); shown.incrementAndGet(); () }).values.map(_.chain)
    assert(shown.get == chains.map(_.frames.size).sum)
    assert(
      intercept[IllegalStateException](
        load(_ => throw new IllegalStateException("a row is not what was written"))
      ).getMessage.startsWith("a row")
    )
  }

  test("damage in one of the bins is told as if they were loaded one after the other") {
    withThreads(3) { (together, most) =>
      val store = new Store
      val file = filled(store, 2, 1 << 20)
      val damaged = new StateFiles {
        def create(file: FileName): AtomicOutput = store.files.create(file)
        def open(file: FileName): FileSource = {
          new PassedOn(store.files.open(file)) {
            override def read(position: Long, count: Int): Array[Byte] = {
              val bytes = super.read(position, count)
              if (count > (1 << 19) && position > (1 << 20)) bytes(7) = (bytes(7) ^ 1).toByte
              bytes
            }
          }
        }
      }
      def error(how: Parallel) =
        intercept[DamagedFileException](
          new Recovery(damaged, Compressions(Compression.None), how)
            .load(file, Seq(0, 2), before.contentHash)
        ).getMessage
      assert(error(together) == error(Parallel.Sequential))
      assert(most.get >= 2)
    }
  }

  test(
    "a plan log that lacks a step is an error for every reader, never the state before the step"
  ) {
    val store = new Store
    val registry = new Registry
    val leases = Seq(0, 1).map(worker => store.lease(registry, worker, worker + 1L))
    def batch(version: Long, from: RoutingTable, to: RoutingTable)(write: => Unit): Unit = {
      val turn = store.turn(version, from, to)
      leases.foreach(store.open(registry, _, turn))
      write
      leases.foreach(store.commit(_, turn))
    }
    batch(0, before, before)(put(leases(0).holding, 0, 1))
    batch(1, before, after)(put(leases(1).holding, 0, 2)) // bin 0 moves from worker 0 to worker 1
    batch(2, after, after)(put(leases(1).holding, 0, 3))
    def error(what: => Any) = intercept[PlanLogMismatchException](what).getMessage
    val head = FileName(0, StateName(3, ""))
    val sentence =
      "The plan log does not fit the state: the file 0/3.delta was written under routing table " +
        "1, which is not the table that the plan log has for version 3; restore the checkpoint's " +
        "folder megaphone/log and its state from one copy, or go back to a version before the " +
        "records that are missing."
    assert(
      error(
        store.open(new Registry, store.lease(new Registry, 0, 9), store.turn(3, before, before))
      ) == sentence
    )
    assert(error(store.recovery.load(head, Seq(0), before.contentHash)) == sentence)
    assert(
      error(
        new Sweep(store.recovery)
          .referenced(Seq(Sweep.Head(head, Vector(0, 2), before.contentHash)))
      ) == sentence
    )
    val old = store.lease(new Registry, 0, 10)
    store.open(new Registry, old, store.turn(1, before, before))
    assert(
      error(
        new CatchUp(store.recovery)(old.holding, StateName(3, ""), before.contentHash)
      ) == sentence
    )
    // Where the table fits by chance, a bin that has left is not taken for what it was.
    assert(
      error(store.recovery.load(head, Seq(0), after.contentHash))
        .contains("by the plan log worker 0 has bin 0, which left it with the file 0/2.delta")
    )
    assert(
      get(
        store.recovery.load(FileName(1, StateName(3, "")), Seq(0), after.contentHash).bins(0).log
      ) == Some(3.toByte)
    )
  }

  test("a holding is brought forward from any version before, the empty one too") {
    val store = new Store
    filled(store, 3, 100)
    for (from <- 0 to 2) {
      val behind = store.lease(new Registry, 0, 10L + from)
      store.open(new Registry, behind, store.turn(from.toLong, before, before))
      val name = StateName(3, "")
      val traffic = new CatchUp(store.recovery)(behind.holding, name, before.contentHash)
      assert(traffic.exists(_.fromCheckpoint > 0) && behind.holding.base == name)
      for (bin <- Seq(0, 2)) assert(get(behind.holding.log(bin)) == Some((2 + bin).toByte))
    }
  }

  test("a file of batches that the query went back from is not read for a plan log as old as it") {
    val store = new Store
    val one = before.moved(Seq(Move(1, 0), Move(3, 0)), 1, 1)
    batch(store, new Registry, 0, attempts = 1, before, before, 1)
    // The query went back to batch 0, and has one worker now.
    batch(store, new Registry, 0, attempts = 11, one, one, 11)
    val left = FileName(1, StateName(1, ""))
    assert(store.recovery.footer(left).tableHash == before.contentHash)
    intercept[PlanLogMismatchException](store.recovery.load(left, Seq(1), before.contentHash))
    intercept[PlanLogMismatchException](store.recovery.frames(left, Set(1), before.contentHash))
  }
}
