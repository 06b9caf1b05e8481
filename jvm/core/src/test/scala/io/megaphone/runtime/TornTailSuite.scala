// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Committer
import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{BytesSource, DeltaFile, Footer}
import io.megaphone.state.{Holding, Registry}
import io.megaphone.transfer.{Coming, TransferBlocks}
import io.megaphone.transfer.TransferBlocks.Part

/** A tail that could be applied in part only is taken back: what it adds to a value would be added
  * once more when it comes again.
  */
class TornTailSuite extends AnyFunSuite with SmallStore {

  /** Puts so much that the bin's frame has a chunk of its own. */
  private def fill(holding: Holding, bin: Int): Unit =
    put(holding, bin, "filler".getBytes, new Array[Byte](DeltaFile.ChunkBytes))

  /** Worker 0 after a batch on one executor and another batch on a second one; both add to a value
    * in each of its bins.
    */
  private def apart(): (Store, Registry, Registry) = {
    val (store, one, other) = (new Store, new Registry, new Registry)
    for ((registry, version) <- Seq(one -> 0L, other -> 1L)) {
      val lease = store.lease(registry, 0, version)
      val turn = store.turn(version, before, before)
      store.open(registry, lease, turn)
      for (bin <- Seq(0, 2)) {
        fill(lease.holding, bin); append(lease.holding, bin, (version + 1).toByte)
      }
      store.commit(lease, turn)
      lease.end()
    }
    (store, one, other)
  }

  test(
    "a worker that retries after any failed read of a catch-up has each value once"
  ) {
    val failed = (1 to 30).count { reads =>
      val (store, registry, _) = apart()
      val turn = store.turn(2, before, before)
      val first = store.lease(registry, 0, 2)
      store.readsLeft = reads
      val hasFailed =
        try { store.open(registry, first, turn); false }
        catch { case _: IOException => true }
      first.end()
      store.readsLeft = -1
      val second = store.lease(registry, 0, 3)
      store.open(registry, second, turn)
      for (bin <- Seq(0, 2))
        assert(list(second.holding.log(bin)) == Seq(1, 2), s"after read $reads had failed")
      hasFailed
    }
    assert(failed >= 4, "the footer, and each of two frames, have failed")
  }

  test("a tail block whose second frame is damaged leaves a copy as it was") {
    val (store, _, registry) = apart()
    val lease = store.lease(registry, 0, 4)
    val turn = store.turn(2, before, before)
    store.open(registry, lease, turn)
    val image =
      onlyPart(store.handOver.image(TransferBlocks.snapshot(lease.holding, Seq(0, 2))))
    val copy =
      store.handOver.replicaOf(Seq(0, 2), 4)(_ => Coming.now(Some(Part("image", image)))).get
    for (bin <- Seq(0, 2)) { fill(lease.holding, bin); append(lease.holding, bin, 3) }
    store.commit(lease, turn)
    val sound = onlyPart(store.handOver.tail(lease.holding, Seq(0, 2)))
    val second = new DeltaFile.Reader(new BytesSource("tail", sound)).footer.frames
      .map(_.chunk)
      .maxBy(_.offset)
    val damaged = sound.clone()
    damaged(second.offset.toInt) = (damaged(second.offset.toInt) ^ 1).toByte
    assertThrows[DamagedFileException](store.handOver.applyTail(Seq(Part("tail", damaged)), copy))
    for (bin <- Seq(0, 2)) assert(list(copy.log(bin)) == Seq(1, 2))
    assert(store.handOver.applyTail(Seq(Part("tail", sound)), copy))
    for (bin <- Seq(0, 2)) assert(list(copy.log(bin)) == Seq(1, 2, 3))
  }

  test("a tail of which a late attempt left only the first piece as it was is applied once") {
    val store = new Store(limits = Committer.Limits(pieceBytes = 24)) // one record
    val (one, late) = (new Registry, new Registry)
    def commit(registry: Registry, attempt: Long, version: Long)(write: Holding => Unit) = {
      val lease = store.lease(registry, 0, attempt)
      val turn = store.turn(version, before, before)
      store.open(registry, lease, turn)
      write(lease.holding)
      val footer = store.commit(lease, turn)
      lease.end()
      footer
    }
    def begin(holding: Holding): Unit = for (name <- keys) add(holding, name, 1)
    // The same rows in another order: the first piece of the tail is the same, the second is not.
    def lengthen(order: Seq[String])(holding: Holding): Unit =
      for (name <- order) add(holding, name, 2)
    commit(one, 0, 0)(begin)
    val first = commit(one, 1, 1)(lengthen(keys))
    // By then the bin's chain has been listed, with the tail of that attempt in it.
    val listing = (2 until Footer.Slices).map { version =>
      commit(one, version.toLong, version.toLong)(append(_, 2, version.toByte))
    }.last
    assert(listing.chains(0).frames.contains(first.frameOf(0)))
    val second = commit(late, 99, 1)(lengthen(Seq(keys(0), keys(2), keys(1))))
    def checksums(footer: Footer) = footer.frameOf(0).chunk.pieces.map(_.checksum)
    assert(checksums(first).head == checksums(second).head && checksums(first) != checksums(second))
    val loaded = store.recovery.load(listing.file, Seq(0), before.contentHash)
    for (name <- keys) assert(list(loaded.bins(0).log, name.getBytes) == Seq(1, 2), name)
  }

  private val keys = Seq("one", "two", "three")
  private def add(holding: Holding, name: String, value: Byte): Unit = {
    holding.touch(0)
    holding.log(0).append(0, name.getBytes, 0, name.length, Array(value), 0, 1)
  }
}
