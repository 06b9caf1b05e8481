// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.upstream

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.SparkFunSuite
import org.scalatest.{Args, Status, SucceededStatus, Suites}

/** One of Spark's own suites, whose tests are counted. */
trait Upstream extends SparkFunSuite {

  /** Tests that are not run: a part of the name, and the reason. */
  def leftOut: Seq[(String, String)] = Nil

  private val passed = mutable.LinkedHashSet.empty[String]
  private val failed = mutable.LinkedHashSet.empty[String]
  private val notRun = mutable.LinkedHashMap.empty[String, (String, String)]

  override protected def runTest(testName: String, args: Args): Status =
    leftOut.find { case (part, _) => testName.contains(part) } match {
      case Some(because) => notRun(testName) = because; SucceededStatus
      case None =>
        val status = super.runTest(testName, args)
        (if (status.succeeds()) passed else failed) += testName
        status
    }

  private[upstream] def passedCount: Int = passed.size
  private[upstream] def count: Int = passed.size + failed.size + notRun.size
  private[upstream] def reasons: Seq[String] =
    notRun.values.groupMapReduce(identity)(_ => 1)(_ + _).toSeq.sorted.map { case ((part, reason), tests) =>
      s"$suiteName: $part ($tests ${if (tests == 1) "test" else "tests"}): $reason"
    }
  def failures: Set[String] = failed.toSet
}

/** Runs suites one after the other, and says how many of their tests pass, and why others were not run.
  *
  * @param counter
  *   of what the suites are to show
  */
abstract class UpstreamSuites(counter: AtomicLong, val suites: Upstream*) extends Suites(suites: _*) {
  private val before = counter.get

  /** What these suites have added to the counter. */
  protected final def counted: Long = counter.get - before

  /** Throws where that is nothing. */
  protected final def checkCounted(nothing: String): Unit = if (counted == 0) throw new AssertionError(s"$nothing, so this run shows nothing.")

  override def run(testName: Option[String], args: Args): Status = {
    val status = super.run(testName, args)
    status.waitUntilCompleted()
    if (suites.nonEmpty) {
      val (passed, all) = (suites.map(_.passedCount).sum, suites.map(_.count).sum)
      println(s"$suiteName: $passed of $all upstream tests pass$remark")
      println(s"  with those before: ${UpstreamSuites.passed.addAndGet(passed)} of ${UpstreamSuites.all.addAndGet(all)} upstream tests pass")
      suites.flatMap(_.reasons).foreach(r => println(s"  not run: $r"))
      verify()
    }
    status
  }

  /** What the line with the counts says beside them. */
  protected def remark: String = ""

  /** Throws where the run has shown nothing. */
  protected def verify(): Unit
}

private object UpstreamSuites {

  /** Of this run, over all suites that have ended. */
  val passed, all = new AtomicLong
}
