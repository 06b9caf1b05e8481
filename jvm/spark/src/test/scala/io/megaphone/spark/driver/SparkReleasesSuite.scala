// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.net.{InetAddress, ServerSocket, Socket}

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.sql.megaphone.Allocation
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.megaphone.testkit.LongRun

/** Whether the application can do without an executor, by what Spark itself wants. The tests run
  * with all tests only.
  */
final class SparkReleasesSuite extends AnyFunSuite {

  /** An application with two executors of a core each. */
  private final class Application(watchMs: Long, settings: (String, String)*) {
    val context = new SparkContext(
      new SparkConf()
        .setMaster("local-cluster[2,1,1024]")
        .setAppName(suiteName)
        .setAll(settings)
    )
    private val headcount = new Headcount(context, () => executors)
    private val releases =
      new SparkReleases(context, headcount, excluded.intersect(_), () => Set.empty, watchMs)
    var excluded: Set[String] = Set.empty

    def executors: Set[String] = Allocation.registered(context)

    /** Why the first one is needed, once dynamic allocation has been watched for long enough. */
    def need: Option[String] = eventually(timeout(1.minute)) {
      releases.look()
      val found = releases.needOf(executors.head)
      assert(!found.exists(_.contains("is watched")))
      found
    }
    def awaitNoNeed(): Unit = eventually(timeout(1.minute))(assert(need.isEmpty))
    def awaitBoth(): Unit = eventually(timeout(2.minutes))(assert(headcount.active.size == 2))

    /** One of them gets no more tasks. Nobody can do without the other. */
    def checkLast(): Unit = {
      val last = "It is the last one that gets tasks."
      excluded = executors.tail
      assert(need.contains(last), "the other one gets none now")
      excluded = Set.empty
      releases.cordon(executors.head)
      assert(need.isEmpty, "it gets none itself")
      assert(executors.tail.forall(releases.needOf(_).contains(last)))
    }
  }

  private def running(settings: (String, String)*)(use: Application => Unit): Unit = {
    val application = new Application(watchMs = 200, settings: _*)
    try { application.awaitBoth(); use(application) }
    finally application.context.stop()
  }

  if (LongRun.isOn) {
    test("without dynamic allocation all may go but the last one that gets tasks") {
      running() { application =>
        assert(application.need.isEmpty)
        application.checkLast()
      }
    }

    test("as many stay as dynamic allocation wants, for it would start another") {
      running(
        "spark.dynamicAllocation.enabled" -> "true",
        "spark.dynamicAllocation.shuffleTracking.enabled" -> "true",
        "spark.dynamicAllocation.initialExecutors" -> "2",
        "spark.dynamicAllocation.maxExecutors" -> "2",
        "spark.dynamicAllocation.minExecutors" -> "1",
        // None is ended by Spark meanwhile.
        "spark.dynamicAllocation.executorIdleTimeout" -> "1h"
      ) { application =>
        import application._
        def wanted = Allocation.wanted(context)
        val twoWanted =
          Some("Spark's dynamic allocation wants 2 executors, and would start another.")
        assert(wanted.contains(2) && need == twoWanted, "as many as it began with")
        context.parallelize(Seq(1), 1).count()
        eventually(timeout(1.minute))(assert(wanted.contains(1)))
        awaitNoNeed() // a job of one task has ended
        assert(executors.size == 2)
        val door = new ServerSocket(0, 2, InetAddress.getLoopbackAddress)
        door.setSoTimeout(120000)
        try {
          val (port, tasks) = (door.getLocalPort, context.parallelize(Seq(1, 2, 3), 3))
          val job = tasks.foreachAsync(_ => SparkReleasesSuite.awaitClose(port))
          val held = Seq.fill(2)(door.accept()) // by then both run, and the third one waits
          eventually(timeout(1.minute))(assert(wanted.contains(2)))
          assert(need == twoWanted, "more tasks wait than can run")
          held.foreach(_.close())
          door.accept().close()
          job.get()
        } finally door.close()
        eventually(timeout(1.minute))(assert(wanted.contains(1)))
        awaitNoNeed()
        checkLast()
      }
    }
  }
}

private object SparkReleasesSuite {

  /** As a task does that runs until it is told to end. */
  def awaitClose(port: Int): Unit = {
    val told = new Socket(InetAddress.getLoopbackAddress, port)
    try { told.getInputStream.read(); () }
    finally told.close()
  }
}
