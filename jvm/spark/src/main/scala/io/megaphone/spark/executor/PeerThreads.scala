// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{ConcurrentHashMap, ExecutorService, ThreadPoolExecutor}

import io.megaphone.format.ExecutorAddress

/** The threads that wait for answers of other executors. Each of those has threads of its own, so
  * one that is frozen holds up the requests to itself, however many there are, and no other's.
  *
  * Threads: any.
  *
  * @param each
  *   how many requests to one executor are under way at most; the others wait in turn
  */
final class PeerThreads(each: Int) extends AutoCloseable {
  private val pools = new ConcurrentHashMap[ExecutorAddress, ThreadPoolExecutor]()

  /** The threads for requests to an executor. To be used at once: idle ones are forgotten. */
  def of(executor: ExecutorAddress): ExecutorService = {
    pools.values.removeIf(pool => pool.getPoolSize == 0 && pool.getQueue.isEmpty)
    pools.computeIfAbsent(executor, _ => ExecutorHost.pool(each, "megaphone-pull"))
  }

  /** Interrupts all that wait. Called twice: nothing happens. */
  override def close(): Unit = pools.values.forEach { pool => pool.shutdownNow(); () }
}
