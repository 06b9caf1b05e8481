// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/**
 * What to move, in which steps, and how: plans, the planner that finds moves, the strategies that cut them into steps.
 *
 * A move and its errors are the routing table's, which needs them too; they are named here as well, because whoever
 * makes a plan looks here.
 */
package object plan {
  type Move = routing.Move
  val Move: routing.Move.type = routing.Move

  type InvalidPlanException = routing.InvalidPlanException
  val InvalidPlanException: routing.InvalidPlanException.type = routing.InvalidPlanException
}
