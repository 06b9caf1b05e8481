// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import io.megaphone.errors.InvalidConfException
import io.megaphone.plan.{Bins => BinNumbers, Strategy, TransferMode}

/** A configuration key. The documentation and the Python constants are generated from these
  * entries.
  *
  * @param key
  *   full name
  * @param default
  *   default value, as text
  * @param scope
  *   when the value is read: `application` (at its start), `query` (at its start) or `plan` (when
  *   it is submitted)
  * @param doc
  *   meaning, unit and allowed values, for users
  * @param parse
  *   throws an exception whose message says what is allowed
  */
final case class ConfEntry[A](
    key: String,
    default: String,
    scope: String,
    doc: String,
    parse: String => A
) {

  /** The value that `get` returns for the key, or the default. Throws InvalidConfException if the
    * value is invalid.
    */
  def read(get: String => Option[String]): A = {
    val text = get(key).getOrElse(default)
    try parse(text)
    catch { case e: Exception => throw new InvalidConfException(key, text, e.getMessage) }
  }
}

/** The plugin's configuration keys. */
object MegaphoneConf {

  /** The state store provider's class name, as a query's session names it. */
  val ProviderClass = "io.megaphone.BinnedStateStoreProvider"
  val Bins: ConfEntry[Int] = ConfEntry(
    "spark.megaphone.bins",
    "1024",
    "query",
    "Number of bins that a new query's keyed state is split into: a power of two from 1 to " +
      "65536. Fixed for the life of the checkpoint.",
    text =>
      BinNumbers.check(
        text.trim.toIntOption.getOrElse(
          throw new IllegalArgumentException(
            s"a power of two from 1 to ${BinNumbers.Max} is needed, for example 1024."
          )
        )
      )
  )
  val Mode: ConfEntry[TransferMode] =
    ConfEntry(
      "spark.megaphone.transfer.mode",
      "prepared",
      "plan",
      "When the bytes of a moving bin travel: `prepared` (ahead of the step), `direct` (during " +
        "the step's batch), `replicated` (as prepared, for a query that executors stand by for: " +
        "most bins then take no copy) or `on-demand` (the step takes effect at once, its batch " +
        "brings the keys that it has, and the rest comes later).",
      TransferMode.parse
    )
  val DefaultStrategy: ConfEntry[Strategy] =
    ConfEntry(
      "spark.megaphone.strategy",
      "batched",
      "plan",
      "How the moves of a plan are grouped into steps: `all-at-once`, `fluid`, `batched`, " +
        "`batched(k)` or `optimized`.",
      Strategy.parse
    )
  val PatienceBatches: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.transfer.patienceBatches",
    "10",
    "query",
    "Number of batches that a step waits for its preparation while no copy or survey of the " +
      "query progresses. After that it takes effect anyway, and bins that are not prepared are " +
      "read from the checkpoint.",
    text => atLeast(1)(text)
  )
  val WindowSteps: ConfEntry[Int] =
    ConfEntry(
      "spark.megaphone.transfer.windowSteps",
      "4",
      "query",
      "Maximum number of steps of a plan that are prepared at the same time.",
      text => atLeast(1)(text).toInt
    )
  val TransferSlowdown: ConfEntry[Double] =
    ConfEntry(
      "spark.megaphone.transfer.slowdown",
      "1.1x",
      "query",
      "How many times as long batches may take while replicas are copied. The rate of the copies " +
        "follows what the query's batches take meanwhile. `off`: copy as fast as possible.",
      text => TransferConf.slowdown(text)
    )
  val MaxBytesPerSecond: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.transfer.maxBytesPerSecond",
      "0",
      "query",
      "The most that each executor copies in a second for replicas, in bytes of records before " +
        "compression (`50m`). What batches change meanwhile does not count. 0: no limit.",
      text => TransferConf.bytes(text)
    )
  val MaxBytesInFlight: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.transfer.maxBytesInFlight",
      "256m",
      "query",
      "How many bytes of state, about, the steps of a plan move that are prepared at the same " +
        "time, in each group of operators. A step that moves more is prepared alone, and so is " +
        "the first one after a start, before it is known how large the state is. 0: no limit.",
      text => TransferConf.limit(text)
    )
  val TailDeadlineMs: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.transfer.tailDeadlineMs",
      "1000",
      "query",
      "How long, in milliseconds, a batch waits for the last tail from another executor before " +
        "it reads the file instead.",
      text => atLeast(1)(text)
    )
  val ImageDeadlineMs: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.transfer.imageDeadlineMs",
    "30000",
    "query",
    "How long, in milliseconds, a batch in mode `direct` waits for images from other executors " +
      "before it reads files instead, at most 10,000 for each part. In mode `prepared`, how long " +
      "a preparation waits for a block from another executor before it is tried again. In mode " +
      "`on-demand`, how long a batch waits for each answer of a source before it reads files " +
      "instead, at most 10,000.",
    text => atLeast(1)(text)
  )
  val TransferPort: ConfEntry[Int] = ConfEntry(
    "spark.megaphone.transfer.port",
    "0",
    "application",
    "Port at which executors ask each other for state. If it is taken, the next free one, up to " +
      "`spark.port.maxRetries` further. 0: any free port.",
    text => TransferConf.port(text)
  )
  val LeaseTimeoutMs: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.lease.timeoutMs",
      "60000",
      "query",
      "How long, in milliseconds, a task waits for another running attempt to release the same " +
        "state.",
      text => atLeast(1)(text)
    )
  val SweepBatches: ConfEntry[Long] =
    ConfEntry(
      "spark.megaphone.sweep.intervalBatches",
      "50",
      "query",
      "Number of batches between two sweeps, which delete state files that no retained version " +
        "needs.",
      text => atLeast(1)(text)
    )

  val FramesMax: ConfEntry[Int] =
    ConfEntry(
      "spark.megaphone.recovery.framesMax",
      "32",
      "query",
      "Number of frames (one per batch that changed the bin) at which a bin's chain is due to be " +
        "rewritten as an image. A few bins are rewritten per batch, so a recovery reads at most " +
        "twice this many frames per bin.",
      text => atLeast(2)(text).toInt
    )

  val MemoryBudget: ConfEntry[MemoryBudget] = ConfEntry(
    "spark.megaphone.memory.budget",
    "40%",
    "application",
    "Heap that state may use on an executor: a share of the whole heap (`40%`) or a size (`8g`). " +
      "State beyond it is kept on the executor's local disks (`spark.local.dir`).",
    io.megaphone.spark.conf.MemoryBudget.parse
  )

  val SqlCatalog: ConfEntry[Option[String]] = ConfEntry(
    "spark.megaphone.sql.catalog",
    "megaphone",
    "application",
    "Name of the catalog with the procedures and tables of SQL. `off`: none.",
    text => {
      val name = text.trim
      if (name.nonEmpty && !name.matches("[A-Za-z][A-Za-z0-9_]*"))
        throw new IllegalArgumentException("a name of letters, digits and _, or off, is needed.")
      if (Set("spark_catalog", "system")(name))
        throw new IllegalArgumentException("Spark has a catalog of that name; choose another.")
      Option.when(name.nonEmpty && name != "off")(name)
    }
  )

  val UiEnabled: ConfEntry[Boolean] = ConfEntry(
    "spark.megaphone.ui.enabled",
    "true",
    "application",
    "Whether Spark's UI has the tab State migration, and the event log what it is made of.",
    yesOrNo
  )
  val UiActions: ConfEntry[Boolean] = ConfEntry(
    "spark.megaphone.ui.actions",
    "true",
    "application",
    "Whether plans can be cancelled in the tab, by who may modify the application. Not if " +
      "`spark.ui.killEnabled` is false.",
    yesOrNo
  )
  val UiStateIntervalMs: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.ui.stateIntervalMs",
    "30000",
    "application",
    "Shortest time, in milliseconds, between two looks at where a query's state is, for the tab " +
      "and the event log; a tenth of it after a step. For more than 4,096 bins it is multiplied " +
      "by bins / 4096.",
    atLeast(1)
  )
  val UiRetainedBatches: ConfEntry[Int] = ConfEntry(
    "spark.megaphone.ui.retainedBatches",
    "500",
    "application",
    "Number of batches, steps and plans of a query that the tab keeps. A history server has its " +
      "own value.",
    some
  )
  val UiRetainedQueries: ConfEntry[Int] = ConfEntry(
    "spark.megaphone.ui.retainedQueries",
    "50",
    "application",
    "Number of runs of queries that the tab keeps; those that run stay in any case.",
    some
  )

  /** All entries, in the order of the documentation. */
  val all: Vector[ConfEntry[_]] =
    Vector(Bins, Mode, DefaultStrategy) ++ PlacementConf.all ++ Vector(
      PatienceBatches,
      WindowSteps,
      TransferSlowdown,
      MaxBytesPerSecond,
      MaxBytesInFlight,
      TailDeadlineMs,
      ImageDeadlineMs,
      TransferPort,
      LeaseTimeoutMs,
      SweepBatches,
      FramesMax,
      MemoryBudget,
      SqlCatalog,
      UiEnabled,
      UiActions,
      UiStateIntervalMs,
      UiRetainedBatches,
      UiRetainedQueries
    )

  /** What each key begins with. */
  private[conf] val Prefix = "spark.megaphone."

  /** The warning about keys that look like the plugin's and are not, for example misspelt ones;
    * None if there are none. `keys` are all keys of a session.
    */
  def warningAbout(keys: Iterable[String]): Option[String] = {
    val unknown =
      keys.filter(key => key.startsWith(Prefix) && !all.exists(_.key == key)).toVector.sorted
    Option.when(unknown.nonEmpty)(
      s"${unknown.mkString(", ")}: no such configuration key, so the value has no effect. The " +
        s"keys are ${all.map(_.key).sorted.mkString(", ")}."
    )
  }

  private def some(text: String): Int = text.trim.toIntOption
    .filter(_ > 0)
    .getOrElse(throw new IllegalArgumentException("a whole number of at least 1 is needed."))

  private[conf] def yesOrNo(text: String): Boolean = text.trim.toBooleanOption
    .getOrElse(throw new IllegalArgumentException("true or false is needed."))

  private[conf] def atLeast(min: Long)(text: String): Long =
    text.trim.toLongOption
      .filter(_ >= min)
      .getOrElse(throw new IllegalArgumentException(s"a whole number of at least $min is needed."))
}
