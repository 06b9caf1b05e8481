// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.collection.immutable.ArraySeq

import io.megaphone.plan.{RoutingTable, Step}

/** Where the state of a group's workers is.
  *
  * @param executors
  *   id of each worker's executor, as far as it is known
  * @param stoodBy
  *   the executors that stand by for each worker with all of its state
  */
final case class Whereabouts(
    executors: Vector[String],
    stoodBy: Vector[Set[String]] = Vector.empty
) {

  /** Whether the target's executor has the source's state. */
  private[protocol] def areTogether(source: Int, target: Int): Boolean =
    executors.lift(target).exists { executor =>
      executors.lift(source).contains(executor) || stoodBy.lift(source).exists(_(executor))
    }
}

/** Bins that travel from the executor of one worker to that of another.
  *
  * @param bins
  *   in an array, for the message of each task has them
  */
final case class Route(source: Int, target: Int, bins: ArraySeq[Int])

object Route {

  /** The bins of a step that travel, by source and target worker. A move to an executor that has
    * the source's state, as its own or as a standby, takes no bytes: the target takes the bins over
    * in memory.
    *
    * @param table
    *   the table before the step
    */
  def of(step: Step, table: RoutingTable, where: Whereabouts): Vector[Route] =
    between(step, table).filterNot(route => where.areTogether(route.source, route.target))

  /** The bins of a step by source and target worker, wherever these are. */
  def between(step: Step, table: RoutingTable): Vector[Route] =
    step.moves.groupBy(m => (table.workerOf(m.bin), m.target)).toVector.sortBy(_._1).collect {
      case ((source, target), moves) if source != target =>
        Route(source, target, moves.iterator.map(_.bin).to(ArraySeq))
    }
}
