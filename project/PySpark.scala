// SPDX-License-Identifier: Apache-2.0
import sbt._

/** Spark's jars as the `pyspark` package carries them. */
object PySpark {

  /** The variable that names another folder of jars. */
  val Variable = "MEGAPHONE_SPARK_4_3_JARS"

  /** The jars of Spark `version`, without the Scala library (the build brings it itself).
    *
    * They are looked for in the folder that `MEGAPHONE_SPARK_4_3_JARS` names, else in `.venv` of
    * the repository. A missing or a wrong one stops the build with a sentence that says what to
    * run.
    */
  def jars(root: File, version: String): Seq[File] = {
    val folder = sys.env
      .get(Variable)
      .filter(_.nonEmpty)
      .map(file)
      .orElse(inVirtualEnvironment(root))
      .getOrElse {
        stop(
          s"Spark $version is missing: run `make setup`, which installs pyspark $version into " +
            s".venv, or name a folder of its jars in $Variable."
        )
      }
    if (!(folder / s"spark-sql_2.13-$version.jar").isFile)
      stop(
        s"$folder does not have the jars of Spark $version: run `make setup`, or name another " +
          s"folder in $Variable."
      )
    (folder * "*.jar").get.filterNot(_.name.startsWith("scala-library-")).sortBy(_.name)
  }

  private def inVirtualEnvironment(root: File): Option[File] =
    (root / ".venv" / "lib" * "python3*" / "site-packages" / "pyspark" / "jars").get.headOption

  private def stop(sentence: String): Nothing = throw new MessageOnlyException(sentence)
}
