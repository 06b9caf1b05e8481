// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

/** What is kept for running tasks of this JVM, by task and a key. It is dropped when the task ends.
  * A task is known by its context, for the numbers of attempts begin anew with each application in
  * a JVM.
  *
  * Threads: any.
  */
final class ByTask[K, V <: AnyRef] {
  private val kept = new ConcurrentHashMap[(TaskContext, K), V]

  /** What a task has at a key, made if there is none. If two threads make one, both get the first;
    * if the task has ended, the new one is not kept.
    */
  def getOrMake(task: TaskContext, key: K)(make: => V): V = get(task, key).getOrElse {
    val made = make
    val known = kept.putIfAbsent((task, key), made)
    if (known == null) task.addTaskCompletionListener[Unit] { _ => kept.remove((task, key)); () }
    Option(known).getOrElse(made)
  }

  def get(task: TaskContext, key: K): Option[V] = Option(kept.get((task, key)))
}
