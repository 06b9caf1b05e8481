// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

/** How much heap state may use on an executor: a share of it (`40%`) or a size (`512m`, `8g`). */
sealed abstract class MemoryBudget {
  def bytesOf(heapBytes: Long): Long
}

object MemoryBudget {
  private final case class Share(percent: Int) extends MemoryBudget {
    override def bytesOf(heapBytes: Long): Long = heapBytes / 100 * percent
  }
  private final case class Size(bytes: Long) extends MemoryBudget {
    override def bytesOf(heapBytes: Long): Long = bytes
  }

  /** Throws IllegalArgumentException, which says what is allowed, if the text is invalid. */
  def parse(text: String): MemoryBudget = {
    val trimmed = text.trim
    val budget =
      if (trimmed.endsWith("%"))
        trimmed.dropRight(1).trim.toIntOption.filter(p => p >= 1 && p <= 90).map(Share(_))
      else ByteSize.parse(trimmed).filter(_ > 0).map(Size(_))
    budget.getOrElse(
      throw new IllegalArgumentException(
        "a share of the heap from 1% to 90% is needed, or a size such as 512m or 8g."
      )
    )
  }
}
