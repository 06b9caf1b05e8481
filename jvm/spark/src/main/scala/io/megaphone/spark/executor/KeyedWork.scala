// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{ConcurrentHashMap, Executor}

/** Work in the background that one thread at a time does for a key.
  *
  * Threads: any.
  *
  * @param threads
  *   do the work
  * @param failed
  *   is told of whatever is thrown, also if there is no thread to be had; the key may come again
  */
final private[executor] class KeyedWork[K](threads: Executor, failed: Throwable => Unit) {
  private val atIt = ConcurrentHashMap.newKeySet[K]()

  /** Has the work of a key done, unless a thread is at it already. Does not wait, and never throws.
    *
    * @param isDueAgain
    *   whether there is more of it, which has come after the thread's last look
    */
  def apply(key: K, isDueAgain: => Boolean = false)(work: => Unit): Unit = if (atIt.add(key))
    try
      threads.execute { () =>
        try work
        catch { case e: Throwable => failed(e) }
        finally atIt.remove(key)
        if (isDueAgain) apply(key, isDueAgain)(work)
      }
    catch { case e: Throwable => atIt.remove(key); failed(e) }
}
