// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{Compression, Compressions, ExecutorAddress, StateName, StoreId}
import io.megaphone.pace.Clock
import io.megaphone.plan.StepId
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{Answer, BlockKind, BlockName, Coming, Heard, Question, TransferBlocks}

class ImpatientPeersSuite extends AnyFunSuite {
  private val (step, store) = (StepId("p", 0, 0), StoreId(0, "default").in("run"))
  private val question = {
    val key = ReplicaKey.forStep(store, 0, 1, step)
    Question.Rest(key, StateName(1, ""), Map(0 -> 1L), 0, Int.MinValue, Array.empty)
  }
  private val image = BlockName(store, 0, 1, StateName(1, ""), BlockKind.Image, step)
  private def executor(id: String) = ExecutorAddress(id, "host", 1)

  /** Executors that take so long to answer, or do not answer in time. */
  private class Slow(answerMs: Map[String, Long]) extends SomePeers(_ => None) with Clock {
    var passedMs = 0L
    var asked = Vector.empty[String]
    override def nanoTime: Long = passedMs * 1000000
    override def waitOn(monitor: Object, nanos: Long): Unit = ()
    override def ask(question: Question, at: ExecutorAddress, deadlineMs: Long): Heard = {
      asked :+= at.id
      passedMs += math.min(answerMs(at.id), deadlineMs)
      if (answerMs(at.id) < deadlineMs) Heard(Answer.NotYet, 1) else Heard.Late
    }

    /** The blocks of those that answer are not there. */
    override def pull(block: BlockName, at: ExecutorAddress, deadlineMs: Long) = {
      asked :+= at.id
      passedMs += math.min(answerMs(at.id), deadlineMs)
      None
    }
  }

  test("an executor that has let a question time out is asked nothing for a minute") {
    val peers = new Slow(Map("frozen" -> Long.MaxValue, "slow" -> 9999))
    val impatient = new ImpatientPeers(peers, peers)
    def ask(id: String, deadlineMs: Long = 10000) =
      impatient.ask(question, executor(id), deadlineMs).answer
    for (_ <- 1 to 100) assert(ask("frozen") == Answer.Gone)
    assert(peers.passedMs == 10000)
    for (_ <- 1 to 2) assert(ask("slow") == Answer.NotYet)
    assert(peers.asked == Vector("frozen", "slow", "slow"))
    peers.passedMs += 60000
    assert(ask("frozen") == Answer.Gone && peers.asked.last == "frozen")
  }

  test("who asks through an executor's agent waits for a frozen executor once") {
    val peers = new Slow(Map("frozen" -> Long.MaxValue))
    val agent = new ExecutorAgent(
      new Registry,
      peers,
      new TransferBlocks(Compressions(Compression.None)),
      FaultPoints.Off,
      (_, _, _) => fail("no state is read"),
      0,
      _ => (),
      clock = peers
    )
    for (_ <- 1 to 4) assert(agent.peers.pull(image, executor("frozen"), 30000).isEmpty)
    assert(peers.asked == Vector("frozen") && peers.passedMs == 30000)
  }

  test("an executor that is gone answers at once, and too short a deadline says nothing") {
    val peers = new Slow(Map("gone" -> 0, "slow" -> 900))
    val impatient = new ImpatientPeers(peers, peers)
    for (_ <- 1 to 3; (id, deadlineMs) <- Seq("gone" -> 0L, "slow" -> 100L))
      impatient.ask(question, executor(id), deadlineMs)
    assert(peers.asked == Seq.fill(3)(Seq("gone", "slow")).flatten)
  }

  test("an answer that is of no use says nothing of its executor, however late it is looked at") {
    val peers = new Slow(Map.empty) {
      override def asking(question: Question, at: ExecutorAddress, deadlineMs: Long) = {
        asked :+= at.id
        () => Heard.Nothing
      }
    }
    val impatient = new ImpatientPeers(peers, peers)
    for (_ <- 1 to 2) {
      val come = impatient.asking(question, executor("damages answers"), 10000)
      peers.passedMs += 20000 // others are waited for
      assert(come() == Heard.Nothing)
    }
    assert(peers.asked.size == 2)
  }

  test("a block that is not there says nothing of its executor, however late it is looked at") {
    val peers = new Slow(Map.empty) {
      override def pulling(block: BlockName, at: ExecutorAddress, deadlineMs: Long) = {
        asked :+= at.id
        Coming.now(None)
      }
    }
    val impatient = new ImpatientPeers(peers, peers)
    for (_ <- 1 to 2) {
      val coming = impatient.pulling(image, executor("lacks it"), 10000)
      peers.passedMs += 20000 // a part of the image is taken in
      assert(coming.await().isEmpty)
    }
    assert(peers.asked.size == 2)
  }

  test("an executor that has let a pull time out is asked nothing for a minute, by any who wait") {
    val peers = new Slow(Map("frozen" -> Long.MaxValue, "lacks it" -> 20))
    val impatient = new ImpatientPeers(peers, peers)
    def pull(id: String) = assert(impatient.pull(image, executor(id), 30000).isEmpty)
    for (_ <- 1 to 4) pull("frozen") // the stores of a join of two streams
    assert(peers.passedMs == 30000)
    assert(impatient.ask(question, executor("frozen"), 10000) == Heard.Nothing)
    impatient.pullAll(Seq("frozen", "lacks it").map(image -> executor(_)), 1000)((_, _) => fail())
    for (_ <- 1 to 2) pull("lacks it")
    assert(peers.asked == Vector("frozen", "lacks it", "lacks it", "lacks it"))
    assert(peers.passedMs == 30060)
    peers.passedMs += 60000
    pull("frozen")
    assert(peers.asked.last == "frozen")
  }

  test("a tail that does not come in its time says nothing of its executor") {
    val peers = new Slow(Map("collects garbage" -> 1500))
    val impatient = new ImpatientPeers(peers, peers)
    val at = executor("collects garbage")
    for (_ <- 1 to 3) impatient.pull(image.copy(kind = BlockKind.Tail), at, 1000)
    for (_ <- 1 to 3) impatient.pullAll(Seq(image -> at), 1000)((_, _) => fail())
    assert(peers.asked.size == 6)
  }
}
