// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Compression, Compressions, ExecutorAddress, StateName, StoreId}
import io.megaphone.plan.StepId
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{BlockName, ReplicaDuty, TransferBlocks}

/** How long an executor waits for a block that prepares a replica. */
class PullDeadlineSuite extends AnyFunSuite with SmallStore {

  test("a pull has the deadline of its run, or the executor's own") {
    assert(deadlineOfPull(Some(7)) == Seq(7L))
    assert(deadlineOfPull(None) == Seq(OwnDeadlineMs))
  }

  private val OwnDeadlineMs = 1000L
  private val step = StepId("plan", 0, 0)

  /** The deadlines of the pulls that a duty makes, under orders with this deadline. */
  private def deadlineOfPull(ofRun: Option[Long]): Seq[Long] = {
    val store = new Store
    val asked = mutable.Buffer.empty[Long]
    val peers = new SomePeers(_ => None) {
      override def pull(
          block: BlockName,
          address: ExecutorAddress,
          deadlineMs: Long
      ): Option[Array[Byte]] = { asked += deadlineMs; None }
    }
    val agent = new ExecutorAgent(
      new Registry,
      peers,
      new TransferBlocks(Compressions(Compression.None)),
      FaultPoints.Off,
      (_, _, _) => new Recovery(store.files, Compressions(Compression.None)),
      OwnDeadlineMs,
      _ => ()
    )
    val duty = ReplicaDuty(
      ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step),
      Vector(0),
      4,
      Some(StateName(1, "")),
      StateName(1, ""),
      before.contentHash,
      None,
      Some(ExecutorAddress("executor", "host", 1))
    )
    agent.obey(Orders(1, Map("run" -> LiveRun("root", 1, Set(step), ofRun)), Vector(duty)))
    agent.replicas.duties.foreach(agent.replicas.prepare(_))
    asked.toSeq
  }
}
