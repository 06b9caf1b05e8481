// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.UUID

import org.apache.spark.sql.megaphone.{ActiveQueries, ActiveQuery}

import io.megaphone.errors.{PlanRefusedException, UnsupportedQueryException}

/** Finds the running queries of the application. Threads: any. */
object Queries {

  /** The driver of the application. Throws UnsupportedQueryException if it has no plugin. */
  def application: ApplicationDriver =
    ApplicationDriver.active.getOrElse(throw UnsupportedQueryException.noPlugin)

  /** The query with this id, run id or name; of None the one query with state in bins that runs.
    * Throws as `of`, and if there is no such query or several.
    */
  def named(asked: Option[String]): QueryDriver = asked match {
    case Some(text) =>
      val all = ActiveQueries.all
      val found =
        all.filter(q => (q.name ++ Seq(q.id.toString, q.runId.toString)).exists(_ == text))
      of(one(found, all, s"is called '$text'"))
    case None =>
      application.planned match {
        case Vector(only) => only
        case several =>
          val all = ActiveQueries.all
          val binned = all.filter(q => several.exists(_.runId == q.runId.toString))
          of(one(if (several.isEmpty) all else binned, all, "runs"))
      }
  }

  private def one(found: Vector[ActiveQuery], all: Vector[ActiveQuery], what: String): String =
    found match {
      case Vector(only) => only.runId.toString
      case Vector() => throw PlanRefusedException.unknownQuery(what, all.map(_.toString))
      case several => throw PlanRefusedException.ambiguousQuery(what, several.map(_.toString))
    }

  /** The query of a run. One that is about to plan its first batch is waited for. Throws
    * PlanRefusedException, which says why there is none with state that could move.
    */
  def of(runId: String): QueryDriver = application.queryWithPlan(runId).getOrElse {
    val run = UUID.fromString(runId)
    if (!ActiveQueries.isActive(run)) throw PlanRefusedException.stopped(runId)
    if (ActiveQueries.isStarting(run)) throw PlanRefusedException.notStarted
    throw application
      .otherProviderOf(runId)
      .fold(PlanRefusedException.notBinned(runId))(PlanRefusedException.onOtherProvider(runId, _))
  }
}
