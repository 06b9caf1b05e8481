// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.concurrent.TrieMap

/** Where each worker of a run has run last, and before that, and since when each executor has run
  * workers of it.
  *
  * Threads: any.
  */
private[runtime] final class LastRuns {
  import LastRuns._

  private val last = TrieMap.empty[(Long, Int), Ran] // by operator and worker
  private val first = TrieMap.empty[String, Long] // executor → the first batch that ran there

  /** A worker of an operator has committed a batch on an executor. What comes late is ignored. */
  def ran(operator: Long, worker: Int, executor: String, batch: Long): Unit = {
    last.updateWith((operator, worker)) {
      case Some(known) if known.batch > batch => Some(known)
      case Some(known) if known.executor == executor => Some(known.copy(batch = batch))
      case known => Some(Ran(executor, batch, known.map(ran => ran.executor -> ran.batch)))
    }
    first.putIfAbsent(executor, batch)
    ()
  }

  /** The executor that a worker ran on last, if it is known. */
  def executorOf(operator: Long, worker: Int): Option[String] =
    last.get((operator, worker)).map(_.executor)

  /** How many workers an operator has had, as far as is known. */
  def workersOf(operator: Long): Int =
    last.keysIterator.collect { case (`operator`, worker) => worker + 1 }.maxOption.getOrElse(0)

  /** Where a worker ran until it came to the executor that it ran on last, and the last batch in
    * which it ran there.
    */
  def before(operator: Long, worker: Int): Option[(String, Long)] =
    last.get((operator, worker)).flatMap(_.before)

  /** Whether a worker ran last on an executor, in this batch or a later one. */
  def hasRun(operator: Long, worker: Int, executor: String, batch: Long): Boolean =
    last.get((operator, worker)).exists(ran => ran.executor == executor && ran.batch >= batch)

  /** The first batch in which an executor ran a worker; None if it never did. */
  def firstOn(executor: String): Option[Long] = first.get(executor)

  /** Executors are gone. What ran there stays known. */
  def forget(executors: Seq[String]): Unit = executors.foreach(first.remove)
}

private object LastRuns {

  /** Where, and in which batch, a worker has run, and the same of the executor before that. */
  private final case class Ran(executor: String, batch: Long, before: Option[(String, Long)])
}
