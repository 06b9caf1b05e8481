// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

import io.megaphone.runtime.{Assignment, Tables}

/** The assignments of the running tasks of this JVM, by task attempt. The plan node above a group
  * puts them, and a store reads them when it is opened. They are dropped when the task ends.
  *
  * Threads: any.
  */
object TaskAssignments {
  private val byAttempt = new ConcurrentHashMap[java.lang.Long, Vector[(Assignment, Tables)]]()

  def put(context: TaskContext, batch: Assignment, tables: Tables): Unit = {
    val attempt = context.taskAttemptId()
    if (
      byAttempt.put(
        attempt,
        byAttempt.getOrDefault(attempt, Vector.empty) :+ (batch -> tables)
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
      found <- held.find { case (f, _) => f.run == run && f.operators.exists(_.id == operator) }
    } yield found
}
