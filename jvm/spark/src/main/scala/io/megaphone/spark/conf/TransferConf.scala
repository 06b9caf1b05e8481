// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

/** The values of the keys under `spark.megaphone.transfer`. Each method throws
  * IllegalArgumentException, which says what is allowed, if the text is invalid.
  */
private[conf] object TransferConf {

  /** By how much batches may become slower: `1.1x` is 0.1, and `off` is 0. */
  def slowdown(text: String): Double = {
    val trimmed = text.trim.toLowerCase(java.util.Locale.ROOT)
    if (trimmed == "off") 0
    else
      trimmed
        .stripSuffix("x")
        .trim
        .toDoubleOption
        .map(_ - 1)
        .filter(share => share >= SlowdownMin - 1e-9 && share <= SlowdownMax)
        .getOrElse(
          throw new IllegalArgumentException("a factor from 1.01x to 10x, or off, is needed.")
        )
  }

  /** A number of bytes: `0`, `1048576`, `50m`. */
  def bytes(text: String): Long =
    ByteSize
      .parse(text)
      .filter(_ >= 0)
      .getOrElse(
        throw new IllegalArgumentException("a size is needed, such as 50m or 1g, or 0.")
      )

  /** The same, but 0 stands for no limit: the greatest number. */
  def limit(text: String): Long = {
    val parsed = bytes(text)
    if (parsed == 0) Long.MaxValue else parsed
  }

  /** The number of a port, or 0. */
  def port(text: String): Int =
    text.trim.toIntOption
      .filter(port => port == 0 || port >= PortMin && port <= PortMax)
      .getOrElse(
        throw new IllegalArgumentException(s"a port from $PortMin to $PortMax is needed, or 0.")
      )

  private val PortMin = 1024
  private val PortMax = 65535
  private val SlowdownMin = 0.01
  private val SlowdownMax = 9.0
}
