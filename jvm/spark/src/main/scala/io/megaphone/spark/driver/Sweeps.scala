// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.concurrent.TrieMap
import scala.util.{Failure, Success, Try}

import org.apache.spark.internal.Logging

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{StoreId, VersionIds}
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
  *   runs work on another thread
  */
final private[driver] class Sweeps(
    runId: String,
    filesOf: StoreId => HadoopStateFiles,
    recoveryOf: StoreId => Recovery,
    inBackground: (=> Unit) => Unit
) extends Logging {
  private val isAtWork = new AtomicBoolean()
  private val failed = TrieMap.empty[StoreId, Unit]

  /** Begins a sweep.
    *
    * @param ids
    *   those at the order's version; None if the commit log does not have it any more
    */
  def start(order: SweepOrder, ids: Option[Map[StoreId, VersionIds]]): Unit = ids match {
    case None =>
      logInfo(
        s"The commit log of query $runId does not have batch ${order.version - 1} any more: no " +
          "old files are looked for."
      )
    case Some(known) =>
      if (isAtWork.compareAndSet(false, true))
        inBackground {
          try order.sweep(known, recoveryOf, filesOf(_).swept)(told(order, _, _))
          finally isAtWork.set(false)
        }
  }

  private def told(order: SweepOrder, store: StoreId, outcome: Try[Int]): Unit = outcome match {
    case Success(deleted) =>
      failed.remove(store)
      logInfo(s"Deleted $deleted files of $store that no version from ${order.version} needs.")
    case Failure(e) =>
      val text =
        s"Old files of $store of query $runId could not be swept at version ${order.version}: $e"
      if (failed.put(store, ()).isEmpty) logInfo(text)
      else logWarning(s"$text. It is not the first time; until it is mended, old files stay.")
  }
}
