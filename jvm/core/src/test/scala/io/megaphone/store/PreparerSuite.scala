// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import java.nio.file.Paths

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format._
import io.megaphone.log.{Overflow, OverflowException, Space}

/** Copies that are made ready, and those for which there is no room. */
class PreparerSuite extends AnyFunSuite with SmallStore {

  test("a copy for which there is no room is told as such, leaves nothing, and is made as soon as there is room") {
    val store = new Store
    val source = new Registry
    val lease = store.lease(source, 0, 1)
    for (v <- 0L to 3L) {
      store.open(source, lease, store.turn(v, before, before))
      for (i <- 0 until 100) {
        val name = s"$v/$i".getBytes
        lease.holding.touch(0)
        lease.holding.log(0).put(0, name, 0, name.length, new Array[Byte](4096), 0, 4096)
      }
      store.commit(lease, store.turn(v, before, before))
    }
    val settled = StateName(4, "")
    val duty = Duty(CopyKey(StoreKey("run", 0, "default"), 0, 1, "step"), Vector(0), 4, StateName(1, ""), settled, None)
    val space = new Space(1 << 20, new Overflow(Seq(Paths.get("/nowhere"))))
    val target = new Registry(space = space)
    val recovery = new Recovery(store.files, Compressions(Compression.None), space = space)
    val preparer = new Preparer(target, recovery, new HandOver(Compressions(Compression.None), space), (_, _, _) => None, 0)
    assert(intercept[OverflowException](preparer(duty)).getMessage.contains("/nowhere"))
    target.measure()
    assert(target.copiesCount == 0 && space.heldBytes == 0)

    val roomy = new Space(1 << 24, new Overflow(Seq(Paths.get("/nowhere"))))
    val again = new Preparer(target, new Recovery(store.files, Compressions(Compression.None), space = roomy), store.handOver, (_, _, _) => None, 0)
    assert(again(duty).contains(4L) && target.copiesCount == 1)
  }
}
