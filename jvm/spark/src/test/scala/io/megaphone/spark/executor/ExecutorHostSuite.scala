// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import io.megaphone.spark.query.PluginSession

/** What the queries of an executor share does not let one hold up another. */
final class ExecutorHostSuite extends PluginSession {
  test("A recovery from files that hang keeps no thread from another query's.") {
    val parallel = ExecutorHost.active.get.parallel
    val callers = Executors.newCachedThreadPool()
    val (areIn, goOn) = (new CountDownLatch(parallel.width), new CountDownLatch(1))
    try {
      val hanging = callers.submit { () =>
        parallel(Seq.fill(8)(() => { areIn.countDown(); goOn.await() }))
      }
      areIn.await()
      val other = callers.submit(() => parallel(Seq(() => 1, () => 2, () => 3)))
      assert(other.get(60, TimeUnit.SECONDS) == Seq(1, 2, 3))
      goOn.countDown()
      hanging.get(60, TimeUnit.SECONDS)
    } finally { goOn.countDown(); callers.shutdown() }
  }
}
