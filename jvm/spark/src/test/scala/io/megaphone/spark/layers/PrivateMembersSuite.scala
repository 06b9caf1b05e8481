// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.layers

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.SPARK_VERSION
import org.scalatest.funsuite.AnyFunSuite

/** The plugin's sources in Spark's package, and samples that break the rule. */
class PrivateMembersSuite extends AnyFunSuite {
  private val Folder = Path.of("../../src/main/scala", PrivateMembers.Package.split('.'): _*)
  private val Minor = SPARK_VERSION.split('.').take(2).mkString(".")

  /** `package.scala` has no code. */
  private val shipped = Files
    .walk(Folder)
    .iterator
    .asScala
    .filter(file => file.toString.endsWith(".scala") && !file.endsWith("package.scala"))
    .map(file => Folder.relativize(file).toString -> Files.readString(file))
    .toMap

  private def sample(header: String, imported: String, body: String): String =
    s"""package ${PrivateMembers.Package}
       |
       |import $imported
       |
       |/** A sample. $header */
       |$body
       |""".stripMargin

  private val context = "org.apache.spark.SparkContext"
  private def header(members: String) = s"Private to Spark ($Minor): $members."

  private val samples = Map(
    "Public.scala" -> sample(
      header("`SparkContext.env`"),
      context,
      "object Public { def version(sc: SparkContext): String = sc.version }"
    ),
    "Broken.scala" -> sample(
      header("`SparkContext.env`"),
      s"$context\nimport org.apache.spark.sql.NoSuchClass",
      "object Broken { def env(sc: SparkContext): AnyRef = sc.env }"
    ),
    "Silent.scala" -> sample(
      "",
      context,
      "object Silent { def env(sc: SparkContext): AnyRef = sc.env }"
    ),
    "Wrong.scala" -> sample(
      header("`SparkContext.conf`"),
      context,
      "object Wrong { def env(sc: SparkContext): AnyRef = sc.env }"
    ),
    "Old.scala" -> sample(
      "Private to Spark (3.5): `SparkContext.env`.",
      context,
      "object Old { def env(sc: SparkContext): AnyRef = sc.env }"
    ),
    "Reflected.scala" -> sample(
      header("`SparkContext.env` and, by reflection, `SparkContext.stopped`"),
      context,
      "object Reflected { def env(sc: SparkContext): AnyRef = sc.env }"
    )
  )

  private lazy val checked = new PrivateMembers(shipped ++ samples, Minor)

  test("Each file in Spark's package needs the private members that its header names.") {
    assert(shipped.size > 5)
    assert(shipped.keys.toVector.sorted.flatMap(checked.problems) === Vector.empty)
  }

  test("What breaks the rule is seen.") {
    assert(
      samples.keys.toVector.sorted.flatMap(checked.problems) === Vector(
        "Broken.scala fails for another reason: object NoSuchClass is not a member of package " +
          "org.apache.spark.sql",
        s"Old.scala does not name Spark $Minor",
        "Public.scala compiles outside org.apache.spark.sql.megaphone",
        "Reflected.scala does not look up SparkContext.stopped by its name",
        "Silent.scala does not say what is private to Spark",
        "Wrong.scala names SparkContext.conf, but needs SparkContext.env"
      )
    )
  }
}
