// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import scala.collection.concurrent.TrieMap
import scala.util.{Failure, Success, Try}

import org.apache.spark.internal.Logging

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.pace.Clock
import io.megaphone.runtime.SweepOrder
import io.megaphone.spark.checkpoint.HadoopStateFiles

/** The sweeps of one run, in the background: see [[io.megaphone.checkpoint.StateSweeper]].
  *
  *   1. A sweep begins while none of the run is at work; otherwise the next order begins one.
  *   1. A store that cannot be swept keeps its files. ''Once:'' the log says so at INFO, because a
  *      file system may fail for a moment. ''Again in the next sweep:'' at WARN, because the files
  *      of the state grow until someone mends it.
  *
  * ''Dies:'' the next sweep finds the rest, also one of another run.
  *
  * Threads: any.
  *
  * @param inBackground
  *   runs work on another thread; returns false if there is none
  * @param warn
  *   is told what somebody should mend
  */
final private[driver] class Sweeps(
    runId: String,
    filesOf: StoreId => HadoopStateFiles,
    recoveryOf: StoreId => Recovery,
    inBackground: (=> Unit) => Boolean,
    warn: String => Unit,
    clock: Clock = Clock.System
) extends Logging {
  private val atWorkSince = new AtomicLong(Sweeps.Idle) // nanoseconds
  private val failed = TrieMap.empty[StoreId, Unit]

  /** Begins a sweep.
    *
    * @param ids
    *   looks for those at the order's version: now, because Spark drops them from the commit log
    *   when it constructs the next batch. None if they are gone already
    */
  def start(order: SweepOrder)(ids: => Option[Map[StoreId, VersionIds]]): Unit =
    if (!atWorkSince.compareAndSet(Sweeps.Idle, clock.nanoTime)) warnIfLong()
    else
      Try(ids) match {
        case Success(Some(known)) =>
          val hasBegun = inBackground {
            try order.sweep(known, recoveryOf, filesOf(_).swept)(told(order, _, _))
            finally atWorkSince.set(Sweeps.Idle)
          }
          if (!hasBegun) atWorkSince.set(Sweeps.Idle)
        case other =>
          atWorkSince.set(Sweeps.Idle)
          val why = other.failed.fold(_ => "is not there any more", e => s"cannot be read: $e")
          logInfo(
            s"Batch ${order.version - 1} in the commit log of query $runId $why. No old files " +
              "are looked for."
          )
      }

  private def warnIfLong(): Unit = {
    val minutes = TimeUnit.NANOSECONDS.toMinutes(clock.nanoTime - atWorkSince.get)
    if (minutes >= Sweeps.LongMinutes)
      warn(
        s"A sweep of query $runId has been at work for $minutes minutes, and no other begins " +
          "meanwhile; see whether the file system hangs, or deletes files more slowly than the " +
          "query writes them."
      )
  }

  private def told(order: SweepOrder, store: StoreId, outcome: Try[Int]): Unit = outcome match {
    case Success(deleted) =>
      failed.remove(store)
      logInfo(s"Deleted $deleted files of $store that no version from ${order.version} needs.")
    case Failure(e) =>
      val text =
        s"Old files of $store of query $runId could not be swept at version ${order.version}: $e"
      if (failed.put(store, ()).isEmpty) logInfo(text)
      else warn(s"$text. It is not the first time; until it is mended, old files stay.")
  }
}

private object Sweeps {
  val Idle: Long = Long.MinValue
  val LongMinutes = 10L
}
