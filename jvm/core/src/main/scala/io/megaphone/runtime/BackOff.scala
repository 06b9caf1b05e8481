// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap

/** Which work rests, so that what cannot succeed is not tried ten times a second. After a failure
  * it rests for a round, after the next in a row for two, then for four, at most for `restMax`.
  *
  * Threads: any.
  *
  * @param round
  *   returns the number of the current round
  */
private[runtime] final class BackOff[K](round: () => Long, restMax: Long) {
  private val failures = new ConcurrentHashMap[K, java.lang.Long]() // in a row
  private val resting = new ConcurrentHashMap[K, java.lang.Long]() // until a round

  def rests(key: K): Boolean = Option(resting.get(key)).exists(_ > round())

  /** Lets work rest for some rounds. */
  def rest(key: K, rounds: Long): Unit = { resting.put(key, round() + rounds); () }

  /** Work has failed. Returns how many times in a row. */
  def failed(key: K): Long = {
    val count = failures.merge(key, 1L, (before, one) => before + one)
    rest(key, math.min(1L << math.min(count - 1, 30L), restMax))
    count
  }

  def succeeded(key: K): Unit = {
    failures.remove(key)
    resting.remove(key)
    ()
  }

  /** Forgets all other work. */
  def keep(isLive: K => Boolean): Unit =
    Seq(failures, resting).foreach(_.keySet.removeIf(key => !isLive(key)))
}

private[runtime] object BackOff {

  /** How many failures in a row somebody is told of: fewer may be chance. */
  val FailuresTold = 5

  /** What a failure says in one line: of a remote error the others are the other side's stack. */
  def reasonOf(cause: Throwable): String = lineOf(cause.toString)
  def lineOf(reason: String): String = reason.linesIterator.nextOption().getOrElse("")
}
