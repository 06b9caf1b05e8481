// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{Callable, ConcurrentHashMap, Future, ThreadPoolExecutor}

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

  /** Begins a request to an executor. Throws OutOfMemoryError if no thread can be had, and
    * RejectedExecutionException after `close`.
    */
  def submit[A](executor: ExecutorAddress)(request: Callable[A]): Future[A] = {
    pools.keySet.forEach { other => pools.computeIfPresent(other, (_, pool) => unlessIdle(pool)) }
    var begun = Option.empty[Future[A]]
    // Within `compute`, so that nobody takes the pool for an idle one meanwhile.
    pools.compute(
      executor,
      (_, known) => {
        val pool = if (known == null) ExecutorHost.pool(each, "megaphone-pull") else known
        begun = Some(pool.submit(request))
        pool
      }
    )
    begun.get
  }

  /** None of its threads is left, which end some time after their last request. */
  private def unlessIdle(pool: ThreadPoolExecutor): ThreadPoolExecutor =
    if (pool.getPoolSize == 0 && pool.getQueue.isEmpty) null else pool

  /** Interrupts all that wait. Called twice: nothing happens. */
  override def close(): Unit = pools.values.forEach { pool => pool.shutdownNow(); () }
}
