// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq, Text}

/** A column of a table on a page. Numbers stand at its right. */
private[ui] final case class Column[A](title: String, isNumber: Boolean, content: A => NodeSeq)

private[ui] object Column {
  def text[A](title: String, content: A => String): Column[A] =
    Column(title, isNumber = false, row => Text(content(row)))
  def number[A](title: String, content: A => String): Column[A] =
    Column(title, isNumber = true, row => Text(content(row)))
}

/** A table in the style of Spark's pages. */
private[ui] object Table {
  def apply[A](columns: Column[A]*)(rows: Seq[A]): Elem =
    <table class="table table-sm table-hover"><thead><tr>{
      columns.map(c => <th class={kind(c)}>{c.title}</th>)
    }</tr></thead><tbody>{
      rows.map(row => <tr>{columns.map(c => <td class={kind(c)}>{c.content(row)}</td>)}</tr>)
    }</tbody></table>

  private def kind(column: Column[_]): String = if (column.isNumber) "n" else ""
}

/** A bar that says how much of something there is, in its title and in words below it. */
private[ui] object Progress {
  def apply(part: Long, all: Long, label: String): NodeSeq = {
    val percent = if (all <= 0) 0 else math.min(100L, 100 * part / all)
    bar(percent, label, if (percent > 90) "bg-danger" else "") ++
      <span class="small">{s"$percent %"}</span>
  }

  def bar(percent: Long, label: String, colour: String): Elem =
    <div class="progress mt-1" role="progressbar" aria-label={label} aria-valuenow={s"$percent"}
      aria-valuemin="0" aria-valuemax="100"><div class={s"progress-bar $colour"}
      style={s"width:$percent%"}></div></div>
}
