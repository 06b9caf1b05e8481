// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{Allocation, Cluster}

import io.megaphone.errors.PlanRefusedException
import io.megaphone.spark.conf.PlacementConf.ExecutorsMax

/** How many executors the application wants of its cluster manager, unless Spark's dynamic
  * allocation says so.
  *
  *   - Nothing is said until an executor is to be ended, or more are asked for.
  *   - When one is about to be ended: as many as get tasks, and one for each that was lost and has
  *     not been replaced. Else another would be started in its place. A cluster manager that
  *     replaces none within two minutes is taken to replace none.
  *   - While some are to be replaced, those that are about to be ended count, too: the cluster
  *     manager counts them, and would start nothing else.
  *   - When more are asked for: that many, less one for each that is ended later.
  *
  * Only executors of Spark's default resource profile count: queries run on no others.
  *
  * Threads: any.
  *
  * @param registered
  *   the executors of the default profile that are there
  */
private final class Headcount(context: SparkContext, registered: () => Set[String])
    extends Logging {
  import Headcount._

  private val asking = new Object // held while the cluster manager is asked: that may take long
  private val lostAtNanos = mutable.Queue.empty[Long]
  private val ended = mutable.Set.empty[String]
  private val ending = mutable.Set.empty[String] // those of them that still wait for it
  private var asked = 0
  private var isTellingDue = false

  /** The executors that get tasks. */
  def active: Set[String] = {
    val all = registered()
    all -- Cluster.leaving(context, all.toVector)
  }

  /** An executor has died. It is to be replaced, if it was not to be ended. */
  def lost(executor: String): Unit = synchronized {
    if (!ended(executor)) {
      forgetOld()
      lostAtNanos.enqueue(System.nanoTime)
      if (ending.nonEmpty) isTellingDue = true
    }
  }

  /** An executor has come. */
  def came(): Unit = synchronized { if (lostAtNanos.nonEmpty) lostAtNanos.dequeue(); () }

  /** An executor gets no more tasks, and waits for its end. Asks nobody: see `tell`. */
  def waitsForEnd(executor: String): Unit = synchronized {
    leaves(executor)
    ending.add(executor)
    ()
  }

  /** An executor is ended now, or was to be and has died. Called again, nothing changes. Asks
    * nobody: see `tell`.
    */
  def leaves(executor: String): Unit = synchronized {
    if (ended.add(executor)) asked -= 1
    ending.remove(executor)
    isTellingDue = true
  }

  /** Tells the cluster manager what changed because executors leave, if anything did. Throws what
    * Spark throws; it is told again then.
    */
  def tell(): Unit = if (takeTellingDue() && !Allocation.isDynamic(context))
    asking.synchronized {
      try { Allocation.limit(context, wanted); () }
      catch { case e: Throwable => synchronized { isTellingDue = true }; throw e }
    }

  /** How many executors the application wants now, in all. */
  def wanted: Int = {
    val (there, now) = (registered(), active.size)
    synchronized {
      val replaced = if (owed > 0) owed + ending.count(there) else 0
      Seq(1, now + replaced, asked).max
    }
  }

  private def takeTellingDue(): Boolean = synchronized {
    val isDue = isTellingDue
    isTellingDue = false
    isDue
  }

  /** Asks the cluster manager for so many executors in all. Throws PlanRefusedException if that is
    * less than there are, or if it cannot be asked.
    */
  def request(total: Int): Unit = asking.synchronized {
    if (Allocation.isDynamic(context)) throw PlanRefusedException.requestedByDynamicAllocation
    if (!Allocation.canStart(context)) throw PlanRefusedException.requestedInOneProcess
    val there = registered()
    val leaving = Cluster.leaving(context, there.toVector)
    val least = math.max(1, there.size - leaving.size)
    if (total < least || total > ExecutorsMax)
      throw PlanRefusedException.invalidExecutors(total, least, ExecutorsMax)
    val before = synchronized {
      ended ++= leaving // they are none of those that are asked for
      val before = asked
      asked = total
      before
    }
    if (!isTaken(total)) {
      synchronized { asked += before - total } // less what has left meanwhile
      throw PlanRefusedException.requestNotTaken(total)
    }
  }

  private def isTaken(total: Int): Boolean =
    try Allocation.limit(context, total)
    catch { case NonFatal(e) => logWarning(s"The request for $total executors failed.", e); false }

  /** How many have died not long ago, and have not been replaced. */
  def owed: Int = synchronized {
    forgetOld()
    lostAtNanos.size
  }

  private def forgetOld(): Unit = {
    lostAtNanos.dequeueWhile(System.nanoTime - _ > PatienceNanos)
    ()
  }
}

private object Headcount {
  val PatienceNanos: Long = 120L * 1000000000L
}
