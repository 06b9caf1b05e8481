// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import io.megaphone.errors.{Condition, Conditions}

/** The page and the Python module generated from the conditions of `io.megaphone.errors`. */
object ErrorsReference {
  private val ColumnsMax = 100

  /** The text of `spark_megaphone/_conditions.py`. */
  def python: String =
    s"""# SPDX-License-Identifier: Apache-2.0
       |\"\"\"What can go wrong, by condition.
       |
       |${Reference.Generated}
       |\"\"\"
       |
       |from typing import Final
       |
       |# The SQLSTATE and the sentence of each condition.
       |CONDITIONS: Final = {
       |${Conditions.all.map(entry).mkString("\n")}
       |}
       |
       |# Those that a call of the plugin may be refused with, or fail with.
       |OF_CALLS: Final = (
       |${Conditions.ofCalls.map(c => s"""    "${c.name}",""").mkString("\n")}
       |)
       |""".stripMargin

  /** The text of `docs/reference/errors.md`. */
  def markdown: String =
    s"""# Errors
       |
       |Every error has a condition: a stable name, by which programs tell errors apart. The
       |message is one sentence that says what was wrong, what is allowed and what to do. In
       |Python, `spark_megaphone.errors` has a class for each condition of a call and of the
       |package itself, whose `condition` is the name. In the JVM, every exception is an
       |`io.megaphone.errors.MegaphoneError`. The first response to each error of a query is in
       |[operations](../operations.md#first-response-to-errors). This page is generated from the
       |code by `io.megaphone.spark.conf.Reference`.
       |""".stripMargin +
      section("Of a session", "The session does not start.", Conditions.ofSessions) +
      section("Of a call", "Unless it says otherwise, nothing has changed.", Conditions.ofCalls) +
      section(
        "Of a query",
        "The query is refused at its first batch, or a batch fails with it.",
        Conditions.ofQueries
      ) +
      section("Of the Python package", "Found before a call, or after it.", Conditions.ofPython)

  private def entry(c: Condition): String = {
    val line = s"""    "${c.name}": ("${c.sqlState}", "${c.doc}"),"""
    if (line.length <= ColumnsMax) line
    else
      s"""    "${c.name}": (
         |        "${c.sqlState}",
         |        "${c.doc}",
         |    ),""".stripMargin
  }

  private def section(title: String, text: String, conditions: Vector[Condition]): String = {
    val rows = conditions.map(c => Vector(s"`${c.name}`", c.sqlState, c.doc))
    s"\n## $title\n\n$text\n\n" +
      Reference.table(Vector("condition", "SQLSTATE", "meaning"), rows)
  }
}
