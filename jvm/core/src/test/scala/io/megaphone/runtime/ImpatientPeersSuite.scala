// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, StateName, StoreId}
import io.megaphone.pace.Clock
import io.megaphone.plan.StepId
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{Answer, Heard, Question}

class ImpatientPeersSuite extends AnyFunSuite {
  private val question = {
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, StepId("p", 0, 0))
    Question.Rest(key, StateName(1, ""), Map(0 -> 1L), 0, Int.MinValue)
  }
  private def executor(id: String) = ExecutorAddress(id, "host", 1)

  /** Executors that take so long to answer, or do not answer in time. */
  private final class Slow(answerMs: Map[String, Long]) extends SomePeers(_ => None) with Clock {
    var passedMs = 0L
    var asked = Vector.empty[String]
    override def nanoTime: Long = passedMs * 1000000
    override def waitOn(monitor: Object, nanos: Long): Unit = ()
    override def ask(question: Question, at: ExecutorAddress, deadlineMs: Long): Heard = {
      asked :+= at.id
      passedMs += math.min(answerMs(at.id), deadlineMs)
      if (answerMs(at.id) < deadlineMs) Heard(Answer.NotYet, 1) else Heard.Nothing
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

  test("an executor that is gone answers at once, and too short a deadline says nothing") {
    val peers = new Slow(Map("gone" -> 0, "slow" -> 900))
    val impatient = new ImpatientPeers(peers, peers)
    for (_ <- 1 to 3; (id, deadlineMs) <- Seq("gone" -> 0L, "slow" -> 100L))
      impatient.ask(question, executor(id), deadlineMs)
    assert(peers.asked == Seq.fill(3)(Seq("gone", "slow")).flatten)
  }
}
