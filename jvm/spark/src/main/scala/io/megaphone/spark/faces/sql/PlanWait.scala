// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.concurrent.TimeUnit

import scala.annotation.tailrec

import io.megaphone.errors.PlanRefusedException
import io.megaphone.spark.driver.{Plans, Queries, QueryDriver, TableRows}
import io.megaphone.view.PlanRow

/** Waits for the end of a plan, for a client that has nothing but SQL. */
private[sql] object PlanWait {

  /** A statement is not to take longer: a client may give up, and the statement goes on. */
  val SecondsMax = 60
  private val LookMs = 100L

  /** Returns the plan's row when it is over, or once the time is up. Throws PlanRefusedException,
    * also if the query ends meanwhile; InterruptedException.
    */
  def until(query: QueryDriver, planId: String, seconds: Int): PlanRow = {
    if (seconds < 0 || seconds > SecondsMax)
      throw PlanRefusedException.invalidArgument(
        "timeout_s",
        s"is $seconds, but it must be from 0 to $SecondsMax; call it again to wait longer"
      )
    val deadline = System.nanoTime + TimeUnit.SECONDS.toNanos(seconds.toLong)
    @tailrec
    def look(now: QueryDriver): PlanRow = {
      val row = TableRows.plan(now, Plans.find(now.state, planId))
      if (row.status.isFinal || System.nanoTime >= deadline) row
      else {
        Thread.sleep(LookMs)
        look(Queries.of(query.runId))
      }
    }
    look(query)
  }
}
