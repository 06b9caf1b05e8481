// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.nio.file.Paths

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{Committer, Recovery}
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, FileName, FileSource, Footer, StateName, StoreId
}
import io.megaphone.log.memory.{HeapBudget, SpillException, SpillFiles}
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, Reached, Registry, Replica, ReplicaKey}
import io.megaphone.testkit.MemoryFiles
import io.megaphone.transfer.{BlockKind, BlockName, Coming, Preparer, ReplicaDuty, TransferBlocks}
import io.megaphone.transfer.TransferBlocks.Part

/** Copies that are made ready, and those for which there is no room. */
class PreparerSuite extends AnyFunSuite with SmallStore {

  test(
    "a replica without room is refused with the reason, leaves nothing, and is made later"
  ) {
    val store = new Store
    filled(store, 0)
    val settled = StateName(4, "")
    val duty =
      ReplicaDuty(
        copyKey,
        Vector(0),
        4,
        Some(StateName(1, "")),
        settled,
        before.contentHash,
        None,
        None
      )
    val budget = spaceOf(1 << 20)
    val target = new Registry(budget = budget)
    val recovery = new Recovery(store.files, Compressions(Compression.None), budget = budget)
    val preparer = new Preparer(
      target,
      recovery,
      recovery,
      new TransferBlocks(Compressions(Compression.None), budget),
      NoPeers,
      0
    )
    assert(intercept[SpillException](preparer(duty)).getMessage.contains("/nowhere"))
    target.measure()
    assert(target.replicasCount == 0 && budget.heldBytes == 0)

    val roomy = spaceOf(1 << 24)
    val again = new Preparer(
      target,
      store.recovery,
      new Recovery(store.files, Compressions(Compression.None), budget = roomy),
      store.handOver,
      NoPeers,
      0
    )
    assert(again(duty) == Preparer.At(4) && target.replicasCount == 1)
  }
  test("a copy leaves a tenth of the memory to the batches, or is none") {
    val store = new Store
    val source = filled(store, 0, 2)
    source.settle()
    val image = onlyPart(store.handOver.image(TransferBlocks.snapshot(source, Seq(0, 2))))
    val replica =
      store.handOver.replicaOf(Seq(0, 2), 4)(_ => Coming.now(Some(Part("block", image))))
    val heapBytes = replica.get.heapBytes
    val duty = ReplicaDuty(
      copyKey,
      Vector(0, 2),
      4,
      Some(source.base),
      source.base,
      before.contentHash,
      None,
      Some(ExecutorAddress("executor", "host", 1))
    )
    def prepared(budgetBytes: Long): Preparer.Outcome = {
      val budget = spaceOf(budgetBytes)
      val preparer =
        new Preparer(
          new Registry(budget = budget),
          store.recovery,
          store.recovery,
          new TransferBlocks(Compressions(Compression.None), budget),
          new SomePeers(_ => Some(image)),
          0
        )
      preparer(duty)
    }
    assertThrows[SpillException](prepared(heapBytes * 100 / 95))
    assert(prepared(heapBytes * 100 / 85) == Preparer.At(source.base.version))
  }

  private val failures = Seq[(String, () => Throwable)](
    "cannot be read" -> (() => new IOException("access denied")),
    "are missing" -> (() => new MissingFileException("0/4.delta")),
    "find no heap" -> (() => new OutOfMemoryError("a test"))
  )

  for ((what, failure) <- failures) test(s"a duty whose files $what rests, longer each time") {
    val store = new Store
    var reads = 0
    var told = Vector.empty[String]
    val broken = new MemoryFiles {
      override def open(file: FileName): FileSource = { reads += 1; throw failure() }
    }
    val agent = new ExecutorAgent(
      new Registry,
      NoPeers,
      store.handOver,
      FaultPoints.Off,
      (_, _, _) => new Recovery(broken, Compressions(Compression.None)),
      0,
      told :+= _
    )
    val duty = dutyFrom(StateName(1, ""), StateName(4, ""))
    val live = Map("run" -> LiveRun("root", 4, Set(StepId("plan", 0, 0)), None))
    val tried = (1L to 20L).filter { round =>
      agent.obey(Orders(round, live, Vector(duty)))
      val before = reads
      agent.replicas.duties.foreach { d =>
        try assert(!agent.replicas.prepare(d), "there is no news")
        catch { case _: IOException | _: OutOfMemoryError => () } // the host logs it, and goes on
      }
      reads > before
    }
    assert(tried == Seq(1, 2, 4, 8, 16))
    assert(told.size == 1 && told.head.contains(failure().getMessage))
  }

  /** A replica at a name, of the bin 0 of a store. */
  private def replicaAt(name: StateName, store: Store, registry: Registry): Replica = {
    val replica = new Holding(0, 4)
    store.recovery
      .load(FileName(0, name), Seq(0), before.contentHash)
      .bins
      .valuesIterator
      .foreach(replica.put)
    replica.restart(name, Vector.empty)
    registry.putReplica(copyKey, replica)
  }

  test("a preparation that is interrupted as it waits for a tail leaves the replica as it was") {
    val (store, registry, old) = (new Store, new Registry, StateName(1, ""))
    filled(store, 0)
    val kept = replicaAt(old, store, registry)
    val peers = new SomePeers(_ => throw new InterruptedException)
    val preparer = new Preparer(registry, store.recovery, store.recovery, store.handOver, peers, 0)
    val duty = dutyFrom(old, StateName(2, ""))
      .copy(address = Some(ExecutorAddress("executor", "host", 1)))
    intercept[InterruptedException](preparer(duty))
    assert(registry.replica(copyKey).exists(_ eq kept) && kept.base == old)
  }

  test("a replica whose files cannot be read for a moment is not made again") {
    val (store, registry, old) = (new Store, new Registry, StateName(1, ""))
    filled(store, 0)
    val kept = replicaAt(old, store, registry)
    val preparer =
      new Preparer(registry, store.recovery, store.recovery, store.handOver, NoPeers, 0)
    val duty = dutyFrom(old, StateName(4, ""))
    val failed = Iterator.from(1).takeWhile { reads =>
      store.readsLeft = reads
      try preparer(duty) != Preparer.At(4)
      catch { case _: IOException => true }
    }
    assert(failed.size > 3, "each file failed once")
    assert(registry.replica(copyKey).exists(_ eq kept) && kept.base == StateName(4, ""))
    assert(kept.alone(_.log(0).keyCount) == 400)
  }

  test("an image that no tails lead on from is not pulled") {
    val store = new Store
    filled(store, 0)
    val asked = mutable.Buffer.empty[BlockName]
    val peers = new SomePeers(block => { asked += block; None })
    val preparer =
      new Preparer(new Registry, store.recovery, store.recovery, store.handOver, peers, 0)
    val address = Some(ExecutorAddress("executor", "host", 1))
    val near = dutyFrom(StateName(1, ""), StateName(4, "")).copy(imageAddress = address)
    assert(preparer(near) == Preparer.At(4) && asked.map(_.kind) == Seq(BlockKind.Image))
    asked.clear()
    val far = near.copy(image = Some(StateName(4 - Preparer.TailsMax - 1, "")))
    val again = new Preparer(new Registry, store.recovery, store.recovery, store.handOver, peers, 0)
    assert(again(far) == Preparer.At(4) && asked.isEmpty)
  }

  test("while copies progress, an image that has not come is waited for") {
    val store = new Store
    filled(store, 0)
    val preparer =
      new Preparer(new Registry, store.recovery, store.recovery, store.handOver, NoPeers, 0)
    val address = Some(ExecutorAddress("executor", "host", 1))
    val duty = dutyFrom(StateName(1, ""), StateName(4, "")).copy(imageAddress = address)
    assert(preparer(duty.copy(progressAt = 2)) == Preparer.Waiting)
    assert(preparer(duty.copy(progressAt = 2, imageAddress = None)) == Preparer.At(4), "it is lost")
    val again =
      new Preparer(new Registry, store.recovery, store.recovery, store.handOver, NoPeers, 0)
    assert(again(duty.copy(progressAt = 1)) == Preparer.At(4))
  }

  test("a slow image is of use as long as files lead on from it, one by one") {
    val store = new Store
    val source = new Registry
    var first = Option.empty[Array[Byte]]
    val versions = 3 * Footer.Slices
    for (v <- 0 until versions) {
      val turn = store.turn(v.toLong, before, before)
      val lease = store.lease(source, 0, v.toLong)
      store.open(source, lease, turn)
      if (v == 2)
        first = Some(onlyPart(store.handOver.image(TransferBlocks.snapshot(lease.holding, Seq(0)))))
      append(lease.holding, 0, v.toByte)
      store.commit(lease, turn)
      lease.release()
    }
    val peers = new SomePeers(block => first.filter(_ => block.kind == BlockKind.Image))
    val target = new Registry
    val preparer = new Preparer(target, store.recovery, store.recovery, store.handOver, peers, 0)
    val duty = dutyFrom(StateName(2, ""), StateName(versions.toLong, ""))
      .copy(
        imageAddress = Some(ExecutorAddress("executor", "host", 1)),
        progressAt = versions.toLong
      )
    assert(preparer(duty) == Preparer.At(versions.toLong))
    val made = target.replica(copyKey).get.alone(holding => list(holding.log(0)))
    assert(made == (0 until versions).map(_.toByte))
    val traffic = target.replica(copyKey).get.traffic
    assert(traffic.fromPeer == first.get.length && traffic.fromCheckpoint > 0)
  }

  test("images among the tails that bring a replica forward count toward the memory") {
    val store = new Store(limits = Committer.Limits(framesMax = 0)) // each frame is an image
    val bins = Vector(0, 2)
    filled(store, bins: _*)
    val budget = spaceOf(2 << 20)
    val target = new Registry(budget = budget)
    // Measures after each frame: one image fits beside the replica, and both do not.
    val recovery =
      new Recovery(
        store.files,
        Compressions(Compression.None),
        budget = budget,
        check = _ => target.measure()
      )
    val preparer = new Preparer(target, recovery, recovery, store.handOver, NoPeers, 0)
    val replica = new Holding(0, 4)
    val (first, second) = (StateName(1, ""), StateName(2, ""))
    recovery.load(FileName(0, first), bins, before.contentHash).bins.values.foreach(replica.put)
    replica.restart(first, Vector.empty)
    target.putReplica(copyKey, replica)
    assertThrows[SpillException](preparer(dutyFrom(first, second).copy(bins = bins)))
  }

  test("a large replica of files is made slice by slice, and is whole only then") {
    val (store, source) = (new Store, new Registry)
    def run(version: Long): Unit =
      batch(store, source, version, 2 * version + 1, before, before, version.toByte)
    run(0)
    run(1)
    val target = new Registry
    val preparer = new Preparer(
      target,
      store.recovery,
      store.recovery,
      store.handOver,
      NoPeers,
      0,
      areFree = () => false,
      sliceBytes = 100
    )
    // A bin has as many bytes as a slice.
    def dutyAt(version: Long) = dutyFrom(StateName(0, ""), StateName(version, ""))
      .copy(bins = Vector(0, 2), image = None, liveBytes = Some(200))
    def values = target.replica(copyKey).get.alone { holding =>
      holding.bins.toSeq.sorted.map(bin => bin -> get(holding.log(bin)).get.toInt)
    }
    assert(preparer(dutyAt(2)) == Preparer.At(2, 1) && values == Seq(0 -> 1))
    assert(target.reached == Seq(Reached(copyKey, 2, 1)))
    for (version <- 2L to 5L) run(version)
    store.readsLeft = 1
    intercept[IOException](preparer(dutyAt(6)))
    store.readsLeft = -1
    assert(preparer(dutyAt(6)) == Preparer.At(4, 1) && values == Seq(0 -> 3), "two tails")
    assert(preparer(dutyAt(6)) == Preparer.At(6) && values == Seq(0 -> 5, 2 -> 5))
    assert(target.reached == Seq(Reached(copyKey, 6)))
    run(6)
    assert(preparer(dutyAt(7)) == Preparer.At(7) && values == Seq(0 -> 6, 2 -> 6))
  }

  private def dutyFrom(image: StateName, settled: StateName) =
    ReplicaDuty(copyKey, Vector(0), 4, Some(image), settled, before.contentHash, None, None)

  private val copyKey =
    ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, StepId("plan", 0, 0))

  /** Memory with no disk. */
  private def spaceOf(budgetBytes: Long) =
    new HeapBudget(budgetBytes, new SpillFiles(Seq(Paths.get("/nowhere"))))

  /** Worker 0, after four commits with 400 KiB for each bin. */
  private def filled(store: Store, bins: Int*): Holding = {
    val source = new Registry
    val lease = store.lease(source, 0, 1)
    for (v <- 0L to 3L) {
      store.open(source, lease, store.turn(v, before, before))
      for (bin <- bins; i <- 0 until 100) {
        val name = s"$v/$i".getBytes
        put(lease.holding, bin, name, new Array[Byte](4096))
      }
      store.commit(lease, store.turn(v, before, before))
    }
    lease.holding
  }
}
