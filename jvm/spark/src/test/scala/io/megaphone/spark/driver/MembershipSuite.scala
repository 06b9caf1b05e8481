// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.scheduler.{
  SparkListenerExecutorExcluded, SparkListenerExecutorUnexcluded, SparkListenerNodeExcluded,
  SparkListenerNodeUnexcluded
}

import io.megaphone.errors.PlanRefusedException
import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.MemberState.{Active, Leaving}
import io.megaphone.runtime.{Held, Report}
import io.megaphone.spark.query.PluginSession
import io.megaphone.spark.wire.MessageBytes

/** Which executors take state, by what Spark and they themselves say. */
final class MembershipSuite extends PluginSession {
  private def application = ApplicationDriver.active.get
  private def membership = application.membership
  private def only = membership.members.head // in local mode there is one

  test("An executor takes no state while Spark excludes it, or its host.") {
    val (id, host, listener) = (only.id, only.host, membership.listener)
    listener.onNodeExcluded(SparkListenerNodeExcluded(0, "another", 1))
    assert(only.state == Active)
    listener.onNodeExcluded(SparkListenerNodeExcluded(0, host, 1))
    assert(only.state == Leaving)
    listener.onExecutorExcluded(SparkListenerExecutorExcluded(0, id, 1))
    listener.onNodeUnexcluded(SparkListenerNodeUnexcluded(0, host))
    assert(only.state == Leaving, "it is still excluded itself")
    listener.onExecutorUnexcluded(SparkListenerExecutorUnexcluded(0, id))
    assert(only.state == Active)
  }

  test("A report of an executor that Spark does not know is kept for nobody.") {
    val stranger = ExecutorAddress("77", "host", 1)
    application.receive(MessageBytes.encode(Report(stranger, Held(1, 2, 3))))
    assert(membership.held.forall(_._1.id == only.id) && membership.members.size == 1)
    val refused = intercept[PlanRefusedException] {
      Placements.drain(application, "77", None, release = false)
    }
    assert(refused.condition == "UNKNOWN_EXECUTOR")
  }
}
