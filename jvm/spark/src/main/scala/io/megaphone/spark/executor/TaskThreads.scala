// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import org.apache.spark.TaskContext

/** The threads of this JVM's running tasks. Who opens a store may be another one: Spark's
  * `RDD.pipe` has rows computed by the thread that writes them to the process, and does not wait
  * for it when the task ends.
  *
  * Threads: any.
  */
object TaskThreads {
  private val threads = new ByTask[Unit, Thread]

  /** Notes the thread of a task. Called by that thread. */
  def begin(task: TaskContext): Unit = { threads.getOrMake(task, ())(Thread.currentThread); () }

  /** The thread of a task; None once it has ended. */
  def of(task: TaskContext): Option[Thread] = threads.get(task, ())
}
