// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** The plugin does not run this query. The message says why, and what to use instead. Thrown when
  * the query's first batch is planned, before anything is written.
  */
final class UnsupportedQueryException private (override val condition: String, message: String)
    extends UnsupportedOperationException(message)
    with MegaphoneError

object UnsupportedQueryException {
  private val Instead =
    "set spark.sql.streaming.stateStore.providerClass to one of Spark's own state store " +
      "providers before the query is started"

  def operator(name: String): UnsupportedQueryException =
    new UnsupportedQueryException(
      "UNSUPPORTED_OPERATOR",
      s"The stateful operator $name does not run on the binned state store yet; $Instead."
    )
  def continuous: UnsupportedQueryException =
    new UnsupportedQueryException(
      "UNSUPPORTED_TRIGGER",
      "Continuous processing does not run on the binned state store; use a micro-batch trigger, " +
        s"or $Instead."
    )
  def realTime: UnsupportedQueryException =
    new UnsupportedQueryException(
      "UNSUPPORTED_TRIGGER",
      "Real-time mode, whose batches write their offsets only at their end, does not run on the " +
        s"binned state store; use a micro-batch trigger, or $Instead."
    )
  def unloadOnCommit: UnsupportedQueryException = new UnsupportedQueryException(
    "UNSUPPORTED_UNLOAD_ON_COMMIT",
    "spark.sql.streaming.stateStore.unloadOnCommit drops the state after each batch, but the " +
      s"binned state store keeps it in memory to move it; set it to false, or $Instead."
  )
  def noPlugin: UnsupportedQueryException = new UnsupportedQueryException(
    "PLUGIN_MISSING",
    "The binned state store needs its plugin; start the session with " +
      s"spark.plugins=io.megaphone.MegaphonePlugin, or $Instead."
  )
  def notRouted: UnsupportedQueryException = new UnsupportedQueryException(
    "PLUGIN_MISSING",
    "A batch was planned without the plugin's rule, because the query's session lacks the " +
      "extension; add io.megaphone.MegaphoneExtensions to spark.sql.extensions, or leave that " +
      s"key to the plugin, or $Instead."
  )
  def rewrite(store: String): UnsupportedQueryException = new UnsupportedQueryException(
    "UNSUPPORTED_REWRITE",
    s"The state $store cannot be rewritten from scratch, which is what Spark does to repartition " +
      "the state of a stopped query; rescale the query while it runs."
  )
  def changedOperators(checkpoint: String, now: String): UnsupportedQueryException =
    new UnsupportedQueryException(
      "OPERATORS_CHANGED",
      s"The checkpoint was written by the stateful operators $checkpoint, but the query now has " +
        s"$now; restore the query, or start from a new checkpoint."
    )
  def formatDowngrade: UnsupportedQueryException = new UnsupportedQueryException(
    "CHECKPOINT_FORMAT_DOWNGRADE",
    "The checkpoint was written with checkpoint format version 2, which cannot be read as " +
      "version 1; set spark.sql.streaming.stateStore.checkpointFormatVersion to 2."
  )
  def missingPlanLog(root: String): UnsupportedQueryException = new UnsupportedQueryException(
    "PLAN_LOG_MISSING",
    s"The checkpoint $root has batches but no plan log in megaphone/log: if one of Spark's own " +
      "state store providers wrote it, set spark.sql.streaming.stateStore.providerClass to that " +
      "provider; if the binned state store wrote it, the record of which worker has which bin is " +
      "lost, so restore that folder, or start from a new checkpoint; if a new query says so, its " +
      "session lacks the extension io.megaphone.MegaphoneExtensions."
  )
}
