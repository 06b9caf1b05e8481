// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.Properties
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import io.megaphone.plan.{Operator, RoutingTable}
import io.megaphone.runtime.{Assignment, Tables}
import io.megaphone.spark.executor.{TaskAssignments, TaskThreads}

/** The tasks of a query's batches as a state store sees them, one after the other, on one thread.
  *
  * @param families
  *   the column families that the query's plan log would know
  * @param stageAttempt
  *   how often the tasks' stage has been tried before
  */
final class StoreTask(
    run: String,
    operator: Long,
    table: RoutingTable,
    families: Seq[String],
    stageAttempt: Int = 0
) {
  private var task: TaskContextImpl = _

  /** Begins the task of the batch that reads a version; the one before has ended. */
  def begin(version: Long): Unit = {
    end()
    val attempt = StoreTask.attempts.incrementAndGet()
    task = StoreTask.contextOf(attempt, stageAttempt)
    TaskContext.setTaskContext(task)
    TaskThreads.begin(task)
    val known = Operator(
      operator,
      "stateStoreSave",
      Vector(StateStoreId.DEFAULT_STORE_NAME),
      families.toVector
    )
    TaskAssignments.put(
      task,
      Assignment(
        run,
        0,
        Vector(known),
        version,
        Map.empty,
        Vector.empty,
        Map.empty,
        Vector.empty,
        ""
      ),
      Tables(table, table)
    )
  }

  /** The current thread works for the task, too. */
  def join(): Unit = TaskContext.setTaskContext(task)

  def end(): Unit =
    if (task != null) { StoreTask.complete(task); TaskContext.unset(); task = null }
}

object StoreTask {
  private val attempts = new AtomicLong()

  /** The context of a task attempt. */
  def contextOf(attempt: Long, stageAttempt: Int = 0): TaskContextImpl = new TaskContextImpl(
    0,
    stageAttempt,
    0,
    attempt,
    0,
    1,
    null,
    new Properties,
    null,
    TaskMetrics.empty,
    1
  )

  /** Ends a task: what waits for that is run. */
  def complete(task: TaskContextImpl): Unit = task.markTaskCompleted(None)
}
