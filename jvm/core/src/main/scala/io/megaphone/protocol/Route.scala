// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.plan.{RoutingTable, Step}

/** Bins that travel from the executor of one worker to that of another. */
final case class Route(source: Int, target: Int, bins: Vector[Int])

object Route {

  /** The bins of a step that travel, by source and target worker. A move between two workers of one
    * executor takes no bytes: the target takes the bins over in memory.
    *
    * @param table
    *   the table before the step
    * @param executors
    *   id of each worker's executor, as far as it is known
    */
  def of(step: Step, table: RoutingTable, executors: Vector[String]): Vector[Route] = {
    def areTogether(source: Int, target: Int) =
      executors.lift(source).isDefined && executors.lift(source) == executors.lift(target)
    step.moves.groupBy(m => (table.workerOf(m.bin), m.target)).toVector.sortBy(_._1).collect {
      case ((source, target), moves) if source != target && !areTogether(source, target) =>
        Route(source, target, moves.map(_.bin))
    }
  }
}
