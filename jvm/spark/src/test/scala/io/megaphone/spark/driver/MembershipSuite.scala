// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.jdk.CollectionConverters._

import org.apache.spark.scheduler.{
  SparkListenerExecutorExcluded, SparkListenerExecutorUnexcluded, SparkListenerNodeExcluded,
  SparkListenerNodeUnexcluded
}
import org.apache.spark.sql.{Encoder, Encoders}
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.errors.PlanRefusedException
import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.MemberState.{Active, Leaving}
import io.megaphone.runtime.{Held, Report}
import io.megaphone.spark.checkpoint.ProbeFileSystem
import io.megaphone.spark.checkpoint.ProbeFileSystem.Fault
import io.megaphone.spark.query.{FedStream, PluginSession}
import io.megaphone.spark.wire.MessageBytes

/** Which executors take state, by what Spark and they themselves say. */
final class MembershipSuite extends PluginSession {
  override protected def settings: Map[String, String] =
    Map("spark.hadoop.fs.probe.impl" -> classOf[ProbeFileSystem].getName)

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

  test("An executor that dies is owed once, however often Spark says so, if it was there.") {
    assert(membership.owed == 0)
    membership.lost("never there")
    assert(membership.owed == 0)
    membership.added("there", cores = 1, isDefault = true)
    membership.added("as well", cores = 1, isDefault = true)
    membership.lost("there")
    membership.lost("there")
    assert(membership.owed == 1)
    membership.lost("as well")
    assert(membership.owed == 2)
    membership.added("in its place", cores = 1, isDefault = true)
    assert(membership.owed == 1)
    membership.lost("in its place")
  }

  test("Who is about to be ended counts while others are to be replaced, and is not replaced.") {
    val headcount = new Headcount(spark.sparkContext, () => Set("1", "3", "4"))
    headcount.waitsForEnd("1")
    assert(headcount.wanted == 3) // in local mode all are active
    headcount.lost("2")
    assert(headcount.wanted == 5, "else the cluster manager would start none for 2")
    headcount.leaves("1")
    assert(headcount.wanted == 4)
    headcount.lost("1")
    assert(headcount.owed == 1)
    headcount.came()
    assert(headcount.wanted == 3)
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

  test("A query that is idle on a store that hangs holds up no drain.", isInShortRun = false) {
    implicit val encoder: Encoder[Long] = Encoders.scalaLong
    val fed = new FedStream[Long](spark)
    val counts = fed.stream.toDF("k").groupBy("k").count()
    val running = start(counts, "complete", s"probe:${folder("checkpoint")}")
    fed.feed(0L until 10L)
    running.query.processAllAvailable()
    val hang = Fault(Fault.ListHangs, "/commits", times = 1)
    ProbeFileSystem.faults = Seq(hang)
    try {
      membership.drain(only.id, None, release = false)
      // As the thread that looks after all executors does for a drain with release.
      val asks: Runnable = () =>
        eventually(timeout(60.seconds)) {
          membership.drainsNow
          assert(hang.struck == 1)
        }
      val asking = new Thread(asks, "asks")
      asking.start()
      eventually(timeout(60.seconds))(assert(hang.struck == 1)) // once the query is idle
      asking.join(60000)
      assert(hanging == Set("megaphone-driver") && !asking.isAlive)
    } finally { ProbeFileSystem.faults = Nil; ProbeFileSystem.released.release() }
    eventually(timeout(60.seconds))(assert(hanging.isEmpty))
    membership.undrain(only.id)
  }

  /** The threads that wait for the store. */
  private def hanging: Set[String] = Thread.getAllStackTraces.asScala.collect {
    case (thread, stack) if stack.exists(_.getClassName == classOf[ProbeFileSystem].getName) =>
      thread.getName
  }.toSet
}
