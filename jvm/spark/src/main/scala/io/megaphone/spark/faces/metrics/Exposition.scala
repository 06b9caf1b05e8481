// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

/** Prometheus' text format, version 0.0.4. Pure. */
private[metrics] object Exposition {
  val ContentType = "text/plain; version=0.0.4; charset=utf-8"

  /** A family of metrics.
    *
    * @param kind
    *   `gauge`, `counter` or `summary`
    * @param help
    *   any text
    */
  final case class Family(name: String, kind: String, help: String, samples: Vector[Sample])

  /** A value.
    *
    * @param labels
    *   names as the format allows them, and any texts; no name twice
    * @param suffix
    *   what follows the family's name: `_sum` and `_count` in a summary
    */
  final case class Sample(labels: Vector[(String, String)], value: BigDecimal, suffix: String = "")

  /** The families, which have names of their own. */
  def text(families: Seq[Family]): String = {
    val out = new StringBuilder
    families.foreach { family =>
      out ++= s"# HELP ${family.name} ${escaped(family.help)}\n"
      out ++= s"# TYPE ${family.name} ${family.kind}\n"
      family.samples.foreach { sample =>
        val labels = sample.labels.map { case (name, value) =>
          s"""$name="${escaped(value).replace("\"", "\\\"")}""""
        }
        val braced = if (labels.isEmpty) "" else labels.mkString("{", ",", "}")
        out ++= s"${family.name}${sample.suffix}$braced ${sample.value.bigDecimal.toPlainString}\n"
      }
    }
    out.toString
  }

  /** The backslash first, or the others' own would be doubled. */
  private def escaped(text: String): String = text.replace("\\", "\\\\").replace("\n", "\\n")
}
