// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import java.util.Locale

/** Numbers as people read them. The same everywhere, whatever the machine's language is. */
private[ui] object Numbers {
  private val ByteUnits = Vector("B", "KiB", "MiB", "GiB", "TiB", "PiB")
  private val CountUnits = Vector("", " k", " M", " G", " T")

  /** 1.2 MiB */
  def bytes(count: Long): String = scaled(count, 1024, ByteUnits.map(" " + _))

  /** 4.4 M; numbers below ten thousand as they are. */
  def count(count: Long): String =
    if (count < 10000) exact(count) else scaled(count, 1000, CountUnits)

  /** 12,345 */
  def exact(count: Long): String = "%,d".formatLocal(Locale.ROOT, count)

  /** 272 ms, 12.3 s, 4 min 5 s. Milliseconds up to ten seconds: batches differ by them. */
  def duration(ms: Long): String =
    if (ms < 10000) s"${exact(ms)} ms"
    else if (ms < 60000) "%.1f s".formatLocal(Locale.ROOT, ms / 1000.0)
    else s"${exact(ms / 60000)} min ${ms % 60000 / 1000} s"

  /** 1.30 */
  def ratio(value: Double): String = "%.2f".formatLocal(Locale.ROOT, value)

  /** The middle of some values; None if there are none. */
  def median(values: Seq[Long]): Option[Long] =
    Option.when(values.nonEmpty)(values.sorted.apply(values.size / 2))

  private def scaled(count: Long, base: Int, units: Vector[String]): String = {
    val powers = Iterator.iterate(1.0)(_ * base).take(units.size).toVector
    val unit = math.max(0, powers.lastIndexWhere(_ <= count.toDouble))
    val value = count / powers(unit)
    if (unit == 0) s"$count${units(0)}"
    else s"%.1f${units(unit)}".formatLocal(Locale.ROOT, value)
  }
}
