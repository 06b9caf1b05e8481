// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.CopyOnWriteArrayList

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext

import io.megaphone.runtime.{Assignment, Tables, Wanted}

/** The assignments of the running tasks of this JVM. The plan node above a group puts them, and a
  * store reads them when it is opened. They are dropped when the task ends.
  *
  * Threads: any.
  */
object TaskAssignments {
  private val assigned = new ByTask[Unit, CopyOnWriteArrayList[Held]]

  private final case class Held(assignment: Assignment, tables: Tables, wanted: Wanted)

  def put(context: TaskContext, batch: Assignment, tables: Tables): Unit = {
    val held = assigned.getOrMake(context, ())(new CopyOnWriteArrayList)
    held.add(Held(batch, tables, new Wanted))
    ()
  }

  /** The assignment of an operator in the current task; None for a reader of the state. */
  def get(run: String, operator: Long): Option[(Assignment, Tables)] =
    for {
      context <- Option(TaskContext.get())
      found <- of(context).find { h =>
        h.assignment.run == run && h.assignment.operators.exists(_.id == operator)
      }
    } yield (found.assignment, found.tables)

  /** The keys that a task will need of a group; None if it has no assignment of that group. */
  def wanted(context: TaskContext, group: Long): Option[Wanted] =
    of(context).find(_.assignment.group == group).map(_.wanted)

  private def of(context: TaskContext) =
    assigned.get(context, ()).iterator.flatMap(_.asScala)
}
