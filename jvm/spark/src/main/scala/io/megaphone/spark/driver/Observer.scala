// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import io.megaphone.runtime.{Committed, PlacingNews}

/** Is told what happens to the queries of an application, to show it elsewhere.
  *
  * Threads: any, several at once; those that answer executors among them, so each method returns
  * quickly. What it throws is logged, and otherwise ignored.
  */
trait Observer {

  /** A run has read its plan log, and plans its first batch next. Its batches wait for this. */
  def began(query: QueryDriver): Unit = ()

  /** A run has begun, a batch of it has ended, or a plan was submitted or cancelled. */
  def changed(query: QueryDriver): Unit

  /** A commit with which bins arrived, or that recovered its worker. */
  def arrived(query: QueryDriver, commit: Committed): Unit

  /** Workers of a run have lost their executor, or relocations have ended. */
  def placed(query: QueryDriver, news: PlacingNews): Unit = ()

  /** The run is over. Its state can still be asked for. Not told if the application stops first.
    *
    * @param error
    *   what it failed with; None if it was stopped
    */
  def ended(query: QueryDriver, error: Option[String]): Unit

  /** A run was found to have its state on another provider. */
  def elsewhere(runId: String, id: String, name: Option[String], provider: String): Unit = ()

  /** Such a run is over. */
  def endedElsewhere(runId: String, error: Option[String]): Unit = ()
}
