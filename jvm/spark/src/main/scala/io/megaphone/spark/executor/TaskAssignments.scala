// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

import io.megaphone.runtime.{Assignment, Tables}

/** The facts of the running tasks of this JVM, by task attempt: put by the node above the group,
  * read when a store is opened.
  */
object TaskAssignments {
  private val facts = new ConcurrentHashMap[java.lang.Long, Vector[(Assignment, Tables)]]()

  def put(context: TaskContext, batch: Assignment, tables: Tables): Unit = {
    val attempt = context.taskAttemptId()
    if (facts.put(attempt, facts.getOrDefault(attempt, Vector.empty) :+ (batch -> tables)) == null)
      context.addTaskCompletionListener[Unit](_ => {
        facts.remove(attempt); ()
      })
    ()
  }

  /** The facts for an operator of a run in the current task; None for a reader of the state. */
  def get(run: String, operator: Long): Option[(Assignment, Tables)] =
    for {
      context <- Option(TaskContext.get())
      held <- Option(facts.get(context.taskAttemptId()))
      found <- held.find { case (f, _) => f.run == run && f.operators.exists(_.id == operator) }
    } yield found
}
