// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, StateName, StoreId}
import io.megaphone.plan.StepId
import io.megaphone.runtime.{Held, LiveRun, Orders, Report}
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.ReplicaDuty

/** Messages as bytes. */
class MessageBytesSuite extends AnyFunSuite {
  private val step = StepId("plan", 0, 1)
  private val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)
  private val address = ExecutorAddress("1", "host", 7337)

  test("A message that was encoded is decoded to an equal one.") {
    val image = StateName(3, "")
    val duty = ReplicaDuty(key, Vector(1, 2), 64, image, image, 7L, Some(address))
    Seq(
      Report(address, Vector(key -> 3L), Vector(key -> "no room"), Held(2, 1, 0)),
      Orders(5, Map("run" -> LiveRun("root", 3, Set(step), Some(1000))), Vector(duty))
    ).foreach(message => assert(MessageBytes.decode(MessageBytes.encode(message)) == message))
  }

  test("Bytes that were cut short are refused.") {
    val bytes = MessageBytes.encode(Report(address, Vector.empty, Vector.empty, Held(0, 0, 0)))
    assertThrows[java.io.IOException](MessageBytes.decode(bytes.dropRight(1)))
  }
}
