// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.events

import com.fasterxml.jackson.annotation.JsonIgnoreProperties
import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.scheduler.SparkListenerEvent

/** What has become of one thing: a query, a plan, a step. The newest event about a thing stands for
  * all before it.
  *
  * It is written to event logs that are read for years, so its name and its fields never change.
  * They are few and of types that cannot fail: an error in one event would make the history server
  * refuse the whole application. What an event says is in its body, which a reader takes with care.
  *
  * @param kind
  *   what kind of thing: one of the names below; a reader ignores others
  * @param version
  *   of the body's fields; a reader ignores newer ones. A field's meaning never changes, and new
  *   ones may come without a new version
  * @param time
  *   in milliseconds since 1970
  * @param run
  *   Spark's id of the run
  * @param key
  *   which of the run's things of this kind
  * @param body
  *   an object
  */
@JsonIgnoreProperties(ignoreUnknown = true)
final case class MegaphoneEvent(
    kind: String,
    version: Int,
    time: Long,
    run: String,
    key: String,
    body: JsonNode
) extends SparkListenerEvent

object MegaphoneEvent {
  val Version = 1

  /** A run of a query: its names and its groups of operators, or the provider that has its state
    * instead. One a run.
    */
  val Query = "query"

  /** Where the bins of a group are and how large they are, and what its workers hold. */
  val State = "state"

  /** A row of the table `plans`, and what else belongs to a plan. */
  val Plan = "plan"

  /** A row of the table `steps` of a step that has taken effect, and what it cost. */
  val Step = "step"

  /** Workers that were read from files at a batch, as after the loss of an executor. */
  val Recovery = "recovery"

  /** What a batch brought of incomplete bins, and what it cost. */
  val Demand = "demand"

  /** A row of the table `relocations`. */
  val Relocation = "relocation"

  /** An executor that was lost with workers of the run. */
  val Loss = "loss"

  /** The rows of the tables `executors` and, of those under way, `drains`. One a run. */
  val Executors = "executors"

  /** The run is over. One a run. */
  val Ended = "ended"
}
