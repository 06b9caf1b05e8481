// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

/** What is kept for running tasks of this JVM, by task attempt and a key. It is dropped when the
  * task ends.
  *
  * Threads: any.
  */
final class ByTask[K, V <: AnyRef] {
  private val kept = new ConcurrentHashMap[(Long, K), V]

  /** What a task has at a key, made if there is none. If two threads make one, both get the first;
    * if the task has ended, the new one is not kept.
    */
  def getOrMake(task: TaskContext, key: K)(make: => V): V = get(task, key).getOrElse {
    val (id, made) = ((task.taskAttemptId(), key), make)
    val known = kept.putIfAbsent(id, made)
    if (known == null) task.addTaskCompletionListener[Unit] { _ => kept.remove(id); () }
    Option(known).getOrElse(made)
  }

  def get(task: TaskContext, key: K): Option[V] = Option(kept.get((task.taskAttemptId(), key)))
}
