// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import io.megaphone.errors.InvalidConfException
import io.megaphone.plan.{Bins => BinNumbers, Strategy, TransferMode}

/** A configuration key: the documentation and the Python constants are made from these.
  *
  * @param key
  *   full name
  * @param default
  *   as text
  * @param scope
  *   when a value is read: `application`, `query` (when it starts) or `plan` (when it is submitted)
  */
final case class ConfEntry[A](
    key: String,
    default: String,
    scope: String,
    doc: String,
    parse: String => A
) {

  /** The value that `get` has for the key, or the default. Throws InvalidConfException with a
    * sentence.
    */
  def read(get: String => Option[String]): A = {
    val text = get(key).getOrElse(default)
    try parse(text)
    catch { case e: Exception => throw new InvalidConfException(key, text, e.getMessage) }
  }
}

object MegaphoneConf {

  /** The state store provider's class name, as a query's session has it. */
  val ProviderClass = "io.megaphone.BinnedStateStoreProvider"
  val Bins: ConfEntry[Int] = ConfEntry(
    "spark.megaphone.bins",
    "1024",
    "query",
    "Bins that a new query's keyed state is split into: a power of two from 1 to 65536. Fixed for the life of the checkpoint.",
    text => BinNumbers.check(whole(text))
  )
  val Mode: ConfEntry[TransferMode] =
    ConfEntry(
      "spark.megaphone.transfer.mode",
      "prepared",
      "plan",
      "When the bytes of a moving bin travel: `prepared` (ahead of the step) or `direct` (at the step).",
      TransferMode.parse
    )
  val DefaultStrategy: ConfEntry[Strategy] =
    ConfEntry(
      "spark.megaphone.strategy",
      "batched",
      "plan",
      "How moves are grouped in steps: `all-at-once`, `fluid`, `batched`, `batched(k)` or `optimized`.",
      Strategy.parse
    )
  val PatienceBatches: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.transfer.patienceBatches",
    "10",
    "query",
    "Batches after which a step that could not be prepared goes on from the checkpoint.",
    text => atLeast(1)(text)
  )
  val WindowSteps: ConfEntry[Int] =
    ConfEntry(
      "spark.megaphone.transfer.windowSteps",
      "4",
      "query",
      "Steps of a plan that are prepared at once.",
      text => atLeast(1)(text).toInt
    )
  val TailDeadlineMs: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.transfer.tailDeadlineMs",
      "1000",
      "query",
      "Time that a batch waits for the last tail from another executor before it reads the file.",
      text => atLeast(1)(text)
    )
  val ImageDeadlineMs: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.transfer.imageDeadlineMs",
    "30000",
    "query",
    "Time that a batch in mode `direct`, or a preparation, waits for an image from another executor before it reads files.",
    text => atLeast(1)(text)
  )
  val LeaseTimeoutMs: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.lease.timeoutMs",
      "60000",
      "query",
      "Time that a task waits for another living attempt that uses the same state.",
      text => atLeast(1)(text)
    )
  val SweepBatches: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.sweep.intervalBatches",
      "50",
      "query",
      "Batches between two looks for files that no retained version needs.",
      text => atLeast(1)(text)
    )

  val FramesMax: ConfEntry[Int] =
    ConfEntry(
      "spark.megaphone.recovery.framesMax",
      "32",
      "query",
      "Frames (the changes of a batch) of a bin from which on it is written whole, a few bins a batch. A recovery reads at most twice as many of a bin.",
      text => atLeast(2)(text).toInt
    )

  val MemoryBudget: ConfEntry[MemoryBudget] = ConfEntry(
    "spark.megaphone.memory.budget",
    "40%",
    "application",
    "Heap that state may take on an executor, as a share of all of it or a size (`8g`). Beyond that, state lies on the executor's local disks (`spark.local.dir`).",
    io.megaphone.spark.conf.MemoryBudget.parse
  )

  /** All entries, in the order of the documentation. */
  val all: Vector[ConfEntry[_]] =
    Vector(
      Bins,
      Mode,
      DefaultStrategy,
      PatienceBatches,
      WindowSteps,
      TailDeadlineMs,
      ImageDeadlineMs,
      LeaseTimeoutMs,
      SweepBatches,
      FramesMax,
      MemoryBudget
    )

  private def whole(text: String): Int = text.trim.toIntOption.getOrElse(
    throw new IllegalArgumentException(s"a whole number is needed, not '$text'.")
  )
  private def atLeast(min: Long)(text: String): Long =
    text.trim.toLongOption
      .filter(_ >= min)
      .getOrElse(throw new IllegalArgumentException(s"a whole number of at least $min is needed."))
}
