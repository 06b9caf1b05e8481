// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.nio.file.Paths

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Compression, Compressions, StateName, StoreId}
import io.megaphone.format.ExecutorAddress
import io.megaphone.log.memory.{HeapBudget, SpillException, SpillFiles}
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, Registry}
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{Preparer, ReplicaDuty, TransferBlocks}

/** Copies that are made ready, and those for which there is no room. */
class PreparerSuite extends AnyFunSuite with SmallStore {

  test(
    "a replica without room is refused with the reason, leaves nothing, and is made later"
  ) {
    val store = new Store
    filled(store, 0)
    val settled = StateName(4, "")
    val duty =
      ReplicaDuty(copyKey, Vector(0), 4, StateName(1, ""), settled, before.contentHash, None)
    val budget = spaceOf(1 << 20)
    val target = new Registry(budget = budget)
    val recovery = new Recovery(store.files, Compressions(Compression.None), budget = budget)
    val preparer = new Preparer(
      target,
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
      new Recovery(store.files, Compressions(Compression.None), budget = roomy),
      store.handOver,
      NoPeers,
      0
    )
    assert(again(duty).contains(4L) && target.replicasCount == 1)
  }
  test("a copy leaves a tenth of the memory to the batches, or is none") {
    val store = new Store
    val source = filled(store, 0, 2)
    source.settle()
    val image = store.handOver.image(TransferBlocks.snapshot(source, Seq(0, 2)))
    val heapBytes = store.handOver.replicaOf("block", image, 4).heapBytes
    val duty = ReplicaDuty(
      copyKey,
      Vector(0, 2),
      4,
      source.base,
      source.base,
      before.contentHash,
      Some(ExecutorAddress("executor", "host", 1))
    )
    def prepared(budgetBytes: Long): Option[Long] = {
      val budget = spaceOf(budgetBytes)
      val preparer =
        new Preparer(
          new Registry(budget = budget),
          store.recovery,
          new TransferBlocks(Compressions(Compression.None), budget),
          new SomePeers(_ => Some(image)),
          0
        )
      preparer(duty)
    }
    assertThrows[SpillException](prepared(heapBytes * 100 / 95))
    assert(prepared(heapBytes * 100 / 85).contains(source.base.version))
  }

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
        lease.holding.touch(bin)
        lease.holding.log(bin).put(0, name, 0, name.length, new Array[Byte](4096), 0, 4096)
      }
      store.commit(lease, store.turn(v, before, before))
    }
    lease.holding
  }
}
