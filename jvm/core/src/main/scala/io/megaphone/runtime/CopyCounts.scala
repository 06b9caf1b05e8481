// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import io.megaphone.pace.Throttle
import io.megaphone.state.ReplicaKey

/** How much was copied for each replica at one of its ends: the most that one attempt has come to,
  * so that repeated attempts do not look like progress. Who copies keeps to the rate.
  *
  * Threads: any.
  */
private[runtime] final class CopyCounts(throttle: Throttle) {
  private val most = new ConcurrentHashMap[ReplicaKey, java.lang.Long]()

  /** What an attempt to copy for a replica calls after each piece, with its bytes. It may wait.
    * What is paid for meanwhile counts at once, or a large piece at a low rate would look like no
    * progress.
    *
    * @param attempted
    *   what the attempt has copied so far; several threads may read files
    * @param hurries
    *   whether it keeps to no rate from now on
    */
  def counting(
      key: ReplicaKey,
      attempted: AtomicLong = new AtomicLong,
      hurries: () => Boolean = () => false
  ): Long => Unit = {
    def count(portion: Long): Unit = {
      val all = attempted.addAndGet(portion)
      most.merge(key, all, (before, now) => math.max(before, now))
      ()
    }
    bytes => throttle.pass(key.store.run, bytes, hurries, count)
  }

  def told: Vector[(ReplicaKey, Long)] =
    most.asScala.iterator.map { case (key, bytes) => key -> bytes.longValue }.toVector

  /** Forgets all other replicas. */
  def keep(isLive: ReplicaKey => Boolean): Unit = { most.keySet.removeIf(key => !isLive(key)); () }
}
