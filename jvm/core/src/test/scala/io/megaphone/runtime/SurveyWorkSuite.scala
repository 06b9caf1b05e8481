// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Checksum, Compression, Compressions, StoreId}
import io.megaphone.log.KeyReader
import io.megaphone.plan.StepId
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.TransferBlocks

/** What a source looks at ahead of a step on demand, and what it tells the driver of that. */
class SurveyWorkSuite extends AnyFunSuite with SmallStore {
  private val store = StoreId(0, "default").in("run")
  private val replica = ReplicaKey.forStep(store, 0, 1, StepId("plan", 0, 0))
  private val keys: KeyReader = new KeyReader {
    override def hashOf(family: Int, bytes: Array[Byte], from: Int, length: Int): Int =
      Checksum.of(bytes.slice(from, from + length))
    override def timeOf(family: Int, bytes: Array[Byte], from: Int, length: Int): Long = 0
  }

  /** An executor with worker 0, whose bins 0 and 2 are settled. */
  private final class Source(reader: () => KeyReader = () => keys) {
    val registry = new Registry
    private val store = new Store
    registry.useKeyReader(replica.store, reader)
    val agent = new ExecutorAgent(
      registry,
      NoPeers,
      new TransferBlocks(Compressions(Compression.None)),
      FaultPoints.Off,
      (_, _, _) => new Recovery(store.files, Compressions(Compression.None)),
      0,
      _ => ()
    )
    private val lease = store.lease(registry, 0, 1)
    locally {
      val turn = store.turn(0, before, before)
      store.open(registry, lease, turn)
      for (bin <- Seq(0, 2); i <- 0 until 10) put(lease.holding, bin, Array(i.toByte), Array(1))
      store.commit(lease, turn)
      store.open(registry, lease, store.turn(1, before, before))
    }
    def queue(of: ReplicaKey = replica): Unit = agent.surveys.queue(of, lease.holding, Seq(0, 2))
    def next(isWanted: Boolean = true): Boolean = agent.surveys.next(_ => isWanted)
    def compact(bin: Int): Unit = lease.holding.log(bin).compact()
    def surveyed: Boolean = agent.report.surveyed == Vector(replica)
    def bytes: Long = agent.report.copied.find(c => c.isSource && c.replica == replica).get.bytes
  }

  test("a source tells how much it has surveyed, and once that is all that a step takes") {
    val source = new Source
    import source._
    assert(agent.report.copied.isEmpty && !surveyed)
    queue()
    assert(bytes == 0 && !surveyed)
    assert(next() && bytes > 0 && !surveyed)
    val half = bytes
    assert(next() && bytes == 2 * half && surveyed)
    assert(!next())
  }

  test("a thread reads all bins of a worker with one reader: it may take long to make one") {
    var made = 0
    val source = new Source(() => { made += 1; keys })
    import source._
    val before = made
    queue()
    assert(next() && next() && made == before + 1)
    compact(0)
    queue()
    val thread = new Thread(() => { next(); () })
    thread.start()
    thread.join()
    assert(surveyed && made == before + 2, "another thread has its own")
  }

  test("what is surveyed is looked at again only if its log was compacted") {
    val source = new Source
    import source._
    queue()
    next()
    queue()
    assert(next() && !next() && surveyed)
    compact(2)
    queue()
    assert(!surveyed)
    assert(next() && !next() && surveyed)
  }

  test("a survey that the orders do not name yet is made once they do") {
    val source = new Source
    import source._
    queue()
    assert(!next(isWanted = false))
    queue()
    assert(next() && next() && !next() && surveyed)
  }

  test("what is dropped while others are not wanted ends no search, and keeps none up") {
    val source = new Source
    import source._
    val other = ReplicaKey.forStep(store, 0, 1, StepId("other", 0, 0))
    queue()
    queue(other)
    def keepOther(): Unit = registry.exports.keep(_ == other)
    assert(!agent.surveys.next { key => if (key == other) keepOther(); false })
    assert(agent.surveys.wantedCount(_ != other) > 0)
    agent.surveys.keep()
    assert(agent.surveys.wantedCount(_ != other) == 0)
    assert(agent.surveys.wantedCount(_ == other) > 0)
  }

  test("nobody waits for bins whose keys cannot be read") {
    val source = new Source(() => throw new NoSuchElementException("no such family"))
    import source._
    queue()
    assert(next() && next() && surveyed)
  }
}
