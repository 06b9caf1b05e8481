// SPDX-License-Identifier: Apache-2.0
package io.megaphone.control

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

import io.megaphone.plan.TransferMode
import io.megaphone.protocol.{Operator, Protocol}
import io.megaphone.routing.RoutingTable

/** The routing tables of a batch for one group: of the batch before, and of this one. Broadcast, and made anew only when they change. */
final case class Tables(before: RoutingTable, after: RoutingTable)

/** What the tasks of a batch must agree on, for one group, beside the tables.
  *
  * @param run
  *   Spark's run id
  * @param batch
  *   the batch, which reads the state of the same version
  * @param ids
  *   by operator and store: checkpoint id of each worker at that version; empty under checkpoint format v1
  * @param incoming
  *   where a step's source workers run
  * @param outgoing
  *   steps to come, whose sources publish
  */
final case class BatchFacts(
    run: String,
    group: Long,
    operators: Vector[Operator],
    batch: Long,
    ids: Map[(Long, String), Vector[String]],
    incoming: Option[Incoming],
    outgoing: Vector[Outgoing],
    label: String
) {
  override def toString: String = label
}

/** A step that takes effect with this batch. */
final case class Incoming(step: String, addresses: Map[Int, String])

/** A step to come: what of it travels between executors.
  *
  * @param withImage
  *   whether this batch is the one to publish images
  */
final case class Outgoing(step: String, mode: TransferMode, withImage: Boolean, routes: Vector[Protocol.Route])

/** The facts of the running tasks of this JVM, by task attempt: put by the node above the group, read when a store is opened. */
object BatchFactsHolder {
  private val facts = new ConcurrentHashMap[java.lang.Long, Vector[(BatchFacts, Tables)]]()

  def put(context: TaskContext, batch: BatchFacts, tables: Tables): Unit = {
    val attempt = context.taskAttemptId()
    if (facts.put(attempt, facts.getOrDefault(attempt, Vector.empty) :+ (batch -> tables)) == null) context.addTaskCompletionListener[Unit](_ => {
      facts.remove(attempt); ()
    })
    ()
  }

  /** The facts for an operator of a run in the current task; None for a reader of the state. */
  def get(run: String, operator: Long): Option[(BatchFacts, Tables)] =
    for {
      context <- Option(TaskContext.get())
      held <- Option(facts.get(context.taskAttemptId()))
      found <- held.find { case (f, _) => f.run == run && f.operators.exists(_.id == operator) }
    } yield found
}
