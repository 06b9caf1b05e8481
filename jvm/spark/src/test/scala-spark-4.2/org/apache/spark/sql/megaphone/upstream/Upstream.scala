// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.upstream

import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.apache.spark.SparkFunSuite
import org.scalatest.{Args, Status, SucceededStatus, Suites}

/** One of Spark's own suites, whose tests are counted. */
trait Upstream extends SparkFunSuite {

  /** Tests that are not run: a part of the name, behind which `$` is its end, and the reason. All
    * tests have the empty part.
    */
  def leftOut: Seq[(String, String)] = Nil

  private val passed = mutable.LinkedHashSet.empty[String]
  private val failed = mutable.LinkedHashSet.empty[String]
  private val notRun = mutable.LinkedHashMap.empty[String, (String, String)]

  override protected def runTest(testName: String, args: Args): Status =
    leftOut.find { case (part, _) => s"$testName$$".contains(part) } match {
      case Some(because) => notRun(testName) = because; SucceededStatus
      case None =>
        val status = super.runTest(testName, args)
        (if (status.succeeds()) passed else failed) += testName
        status
    }

  def passedCount: Int = passed.size
  private[upstream] def count: Int = passed.size + failed.size + notRun.size
  private[upstream] def reasons: Seq[String] =
    notRun.values.groupMapReduce(identity)(_ => 1)(_ + _).toSeq.sorted.map {
      case ((part, reason), tests) =>
        s"$suiteName: ${if (part.isEmpty) "all"
          else part.stripSuffix("$")} ($tests ${if (tests == 1) "test" else "tests"}): $reason"
    }
  def failures: Set[String] = failed.toSet
}

/** One of Spark's own suites of which no test is run: they are counted, and the reason told. No
  * session is started.
  */
trait NotRun extends Upstream {
  def because: String

  override def leftOut: Seq[(String, String)] = Seq("" -> because)
  override def beforeAll(): Unit = ()
  override def afterAll(): Unit = ()
}

/** Runs suites one after the other, and says how many of their tests pass, and why others were not
  * run. The numbers are left in a file, to be summed up at the end of the whole run.
  *
  * @param counter
  *   of what the suites are to show
  * @param kind
  *   what passing shows: the folder of that file
  */
abstract class UpstreamSuites(counter: AtomicLong, kind: String, val suites: Upstream*)
    extends Suites(suites: _*) {
  private val before = counter.get

  /** What these suites have added to the counter. */
  protected final def counted: Long = counter.get - before

  /** Throws where that is nothing. */
  protected final def checkCounted(nothing: String): Unit =
    if (counted == 0) throw new AssertionError(s"$nothing, so this run shows nothing.")

  override def run(testName: Option[String], args: Args): Status = {
    val status = super.run(testName, args)
    status.waitUntilCompleted()
    if (suites.nonEmpty) {
      val (passed, all) = (suites.map(_.passedCount).sum, suites.map(_.count).sum)
      println(s"$suiteName: $passed of $all upstream tests pass$remark")
      Files.writeString(
        Files.createDirectories(Path.of("upstream-counts", kind)).resolve(suiteName),
        s"$passed $all"
      )
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

object UpstreamSuites {
  val OnBins = "on bins"
}
