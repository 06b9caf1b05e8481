// SPDX-License-Identifier: Apache-2.0
import sbt._

/** Every version the build fixes, in one place; the project's own stands in pyproject.toml. */
object Versions {
  val Scala = "2.13.18"
  val ScalaTest = "3.2.19"
  val ScalaTestPlus = "3.2.19.0"

  /** From Maven Central, with its `tests` jars: Spark's own contract suites run on this one. */
  val Spark42 = "4.2.0"

  /** From the `pyspark` package in the virtual environment: what users install, and what the Python
    * tests run on.
    */
  val Spark43 = "4.3.0"

  /** The `version` line of pyproject.toml, the only place where the project's version is written
    * down.
    */
  def ofProject(root: File): String = {
    val Line = """version\s*=\s*"([^"]+)".*""".r
    IO.readLines(root / "pyproject.toml")
      .collectFirst { case Line(version) => version }
      .getOrElse(sys.error("pyproject.toml has no line: version = \"…\""))
  }
}
