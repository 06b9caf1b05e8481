// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

import io.megaphone.runtime.{Assignment, Tables, Wanted}

/** The assignments of the running tasks of this JVM, by task attempt. The plan node above a group
  * puts them, and a store reads them when it is opened. They are dropped when the task ends.
  *
  * Threads: any.
  */
object TaskAssignments {
  private val byAttempt = new ConcurrentHashMap[java.lang.Long, Vector[Held]]()

  private final case class Held(assignment: Assignment, tables: Tables, wanted: Wanted)

  def put(context: TaskContext, batch: Assignment, tables: Tables): Unit = {
    val attempt = context.taskAttemptId()
    if (
      byAttempt.put(
        attempt,
        byAttempt.getOrDefault(attempt, Vector.empty) :+ Held(batch, tables, new Wanted)
      ) == null
    )
      context.addTaskCompletionListener[Unit](_ => {
        byAttempt.remove(attempt); ()
      })
    ()
  }

  /** The assignment of an operator in the current task; None for a reader of the state. */
  def get(run: String, operator: Long): Option[(Assignment, Tables)] =
    for {
      context <- Option(TaskContext.get())
      held <- Option(byAttempt.get(context.taskAttemptId()))
      found <- held.find { h =>
        h.assignment.run == run && h.assignment.operators.exists(_.id == operator)
      }
    } yield (found.assignment, found.tables)

  /** The keys that a task will need of a group; None if it has no assignment of that group. */
  def wanted(context: TaskContext, group: Long): Option[Wanted] =
    Option(byAttempt.get(context.taskAttemptId()))
      .flatMap(_.find(_.assignment.group == group))
      .map(_.wanted)
}
