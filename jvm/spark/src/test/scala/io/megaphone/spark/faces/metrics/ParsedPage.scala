// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import scala.collection.mutable

import io.megaphone.spark.faces.metrics.Exposition.{Family, Sample}

/** Reads Prometheus' text format, version 0.0.4, and is strict: what our page has no need of is an
  * error. A sample belongs to the family whose lines come last before it.
  */
object ParsedPage {
  private val Help = "(?s)# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)".r
  private val Type = "# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (gauge|counter|summary)".r
  private val Value = """(?s)([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?\d+(?:\.\d+)?)""".r
  private val LabelName = "[a-zA-Z_][a-zA-Z0-9_]*".r

  def of(text: String): Vector[Family] = {
    require(text.isEmpty || text.endsWith("\n"), "The last line has no end.")
    val lines = text.split("\n", -1).toVector.dropRight(1)
    val found = mutable.ArrayBuffer.empty[Family]
    var help = Option.empty[(String, String)]
    lines.foreach {
      case Help(name, words) =>
        require(help.isEmpty && !found.exists(_.name == name), s"Two helps for $name.")
        help = Some(name -> unescaped(words, isQuoted = false))
      case Type(name, kind) =>
        require(help.exists(_._1 == name), s"No help for $name.")
        found += Family(name, kind, help.get._2, Vector.empty)
        help = None
      case Value(name, labels, value) =>
        require(help.isEmpty && found.nonEmpty, s"$name has no type.")
        val family = found.last
        require(name.startsWith(family.name), s"$name is among ${family.name}.")
        val suffix = name.drop(family.name.length)
        val allowed = if (family.kind == "summary") Set("_sum", "_count") else Set("")
        require(allowed(suffix), s"$name is not of a ${family.kind}.")
        val sample = Sample(labelsOf(Option(labels).getOrElse("")), BigDecimal(value), suffix)
        found(found.size - 1) = family.copy(samples = family.samples :+ sample)
      case other => throw new IllegalArgumentException(s"No line of the format: $other")
    }
    require(help.isEmpty, "A help without a type.")
    found.toVector
  }

  private def labelsOf(text: String): Vector[(String, String)] = {
    val found = Vector.newBuilder[(String, String)]
    var rest = text
    while (rest.nonEmpty) {
      val name = LabelName.findPrefixOf(rest).getOrElse(throw new IllegalArgumentException(rest))
      rest = rest.drop(name.length)
      require(rest.startsWith("=\""), s"No value: $rest")
      rest = rest.drop(2)
      var end = 0
      while (rest(end) != '"') end += (if (rest(end) == '\\') 2 else 1)
      found += name -> unescaped(rest.take(end), isQuoted = true)
      rest = rest.drop(end + 1)
      if (rest.nonEmpty) { require(rest.startsWith(","), rest); rest = rest.drop(1) }
    }
    found.result()
  }

  private def unescaped(text: String, isQuoted: Boolean): String = {
    val out = new StringBuilder
    val chars = text.iterator
    chars.foreach {
      case '\\' =>
        chars.next() match {
          case '\\' => out += '\\'
          case 'n' => out += '\n'
          case '"' if isQuoted => out += '"'
          case other => throw new IllegalArgumentException(s"\\$other escapes nothing.")
        }
      case other => out += other
    }
    out.toString
  }
}
