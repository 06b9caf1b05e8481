// SPDX-License-Identifier: Apache-2.0
import sbt._

/** How many of Spark's own tests pass, told as the last line of a run.
  *
  * Each of the suites that run them leaves a file with two numbers, passed and all, in the folder
  * of what it shows; a run begins with none.
  */
object UpstreamCounts {

  def options(folder: File): Seq[TestOption] =
    Seq(Tests.Setup(() => IO.delete(folder)), Tests.Cleanup(() => tell(folder)))

  private def tell(folder: File): Unit =
    for (kind <- (folder * DirectoryFilter).get.sortBy(_.name)) {
      val counts = (kind * "*").get.map(file => IO.read(file).trim.split(' ').map(_.toInt))
      println(
        s"${counts.map(_(0)).sum} of ${counts.map(_(1)).sum} upstream tests pass ${kind.name}"
      )
    }
}
