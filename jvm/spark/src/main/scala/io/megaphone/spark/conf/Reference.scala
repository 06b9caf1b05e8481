// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import io.megaphone.plan.{Bins, RoutingTable, Strategy, TransferMode}

/** The pages of the documentation and the Python modules that are made from the code: those of the
  * configuration entries, which are here, of the tables and of the conditions.
  *
  * After one of these has changed: `./sbt "spark43/runMain io.megaphone.spark.conf.Reference"`. A
  * test of the Python package fails until then.
  */
object Reference {
  private val Prefix = "spark.megaphone."
  private val ColumnsMax = 108

  /** What the first line of a module says of where it comes from. */
  private[conf] val Made = "made by io.megaphone.spark.conf.Reference, not by hand"

  /** The text of `spark_megaphone/conf.py`. */
  def python: String = {
    val keys = MegaphoneConf.all.map(e =>
      s"""${comment(s"${e.doc} Default `${e.default}`; read ${readWhen(e)}.")}
                                             |${name(e)}: Final = "${e.key}"
                                             |""".stripMargin
    )
    s"""# SPDX-License-Identifier: Apache-2.0
       |\"\"\"The configuration keys and what may stand in them; made by io.megaphone.spark.conf.Reference, not by hand.\"\"\"
       |
       |from typing import Final
       |
       |${keys.mkString("\n")}
       |# What each key stands for where it is not set.
       |DEFAULTS: Final = {
       |${MegaphoneConf.all.map(e => s"""    ${name(e)}: "${e.default}",""").mkString("\n")}
       |}
       |
       |# What the plugin reads for TRANSFER_MODE and STRATEGY, in any case.
       |MODES: Final = (${quoted(TransferMode.values.map(_.name))})
       |STRATEGIES: Final = (${quoted(Strategy.Allowed)})
       |
       |# The most bins and the most workers that a query can have.
       |BINS_MAX: Final = ${Bins.Max}
       |WORKERS_MAX: Final = ${RoutingTable.WorkersMax}
       |""".stripMargin
  }

  /** The text of `docs/configuration.md`. */
  def markdown: String =
    s"""# Configuration
       |
       |Set these as Spark configuration: with `--conf`, in `spark-defaults.conf`, on the session's builder, or by the arguments of `spark_megaphone.configure`, whose module
       |`spark_megaphone.conf` has each key as a constant. This page is made from the code, by `io.megaphone.spark.conf.Reference`.
       |
       || key | default | read | meaning |
       ||---|---|---|---|
       |${MegaphoneConf.all
        .map(e => s"| `${e.key}` | `${e.default}` | ${readWhen(e)} | ${e.doc} |")
        .mkString("\n|")}
       |
       |A value that cannot be is an error that names the key, the value and what is allowed; it is raised when the value is read.
       |""".stripMargin

  /** Every file that is made, by its path in the repository, and its text. */
  def files: Vector[(String, String)] = Vector(
    "python/spark_megaphone/conf.py" -> python,
    "python/spark_megaphone/_tables.py" -> TablesReference.python,
    "python/spark_megaphone/_conditions.py" -> ErrorsReference.python,
    "docs/configuration.md" -> markdown,
    "docs/reference/tables.md" -> TablesReference.markdown,
    "docs/reference/errors.md" -> ErrorsReference.markdown
  )

  /** Their paths, one a line. */
  def paths: String = files.map(_._1).mkString("\n")

  /** The text of the file of that path. */
  def textOf(path: String): String = files.toMap.apply(path)

  /** Writes them into the repository whose root is the argument, by default the working folder. */
  def main(args: Array[String]): Unit = {
    val root = Path.of(args.headOption.getOrElse("."))
    files.foreach { case (path, text) => write(root.resolve(path), text) }
  }

  private def write(file: Path, text: String): Unit = {
    Files.createDirectories(file.getParent)
    Files.write(file, text.getBytes(UTF_8))
    println(s"Wrote $file.")
  }

  private def readWhen(entry: ConfEntry[_]): String = entry.scope match {
    case "application" => "when the application starts"
    case "query" => "when a query starts"
    case "plan" => "when a plan is submitted"
  }

  /** `transfer.windowSteps` is TRANSFER_WINDOW_STEPS. */
  private def name(entry: ConfEntry[_]): String =
    entry.key
      .stripPrefix(Prefix)
      .replaceAll("([a-z])([A-Z])", "$1_$2")
      .replace('.', '_')
      .toUpperCase(java.util.Locale.ROOT)

  private def quoted(names: Seq[String]): String = names.map(n => s""""$n"""").mkString(", ")

  /** A table of a page. */
  private[conf] def table(head: Vector[String], rows: Vector[Vector[String]]): String =
    (head +: head.map(_ => "---") +: rows).map(_.mkString("| ", " | ", " |\n")).mkString

  /** The text as lines of a Python comment. */
  private[conf] def comment(text: String): String =
    text
      .split(' ')
      .foldLeft(Vector("#")) { (lines, word) =>
        if (lines.last.length + 1 + word.length > ColumnsMax) lines :+ s"# $word"
        else lines.init :+ s"${lines.last} $word"
      }
      .mkString("\n")
}
