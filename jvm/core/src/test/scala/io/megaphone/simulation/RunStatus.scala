// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.format.WorkerId
import io.megaphone.placement.Seat
import io.megaphone.plan.Group
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.QueryRun

/** How far a run is, as its driver knows it: what is to move, and what it could do without. */
final class RunStatus(driver: Driver, run: QueryRun, world: World) {
  private val setup = world.setup
  private def state: Protocol.State = driver.state

  def stepsLeft: Int =
    state.history.open.map(p => p.stepsCount - state.history.sealedSteps(p.id).size).sum

  /** Whether bins of a step on demand may still be incomplete. */
  def isArriving: Boolean = state.decision.exists(_.incomplete.valuesIterator.exists(_.nonEmpty))

  /** Whether workers are on their way, or on executors that are to be emptied. */
  def isRelocating: Boolean = run.footprint.relocations.exists(_.isOpen) ||
    world.mustEmpty &&
    world.drains.open.exists(e =>
      run.footprint.staysOn(e).nonEmpty || run.footprint.standbysOn(e, isIdle = false).nonEmpty
    )

  /** What of it is not over. */
  def moving: String =
    s"${driver.openPlans}, ${run.footprint.relocations.takeRight(3)}, to be emptied " +
      world.drains.open
        .map { e =>
          val standbys = run.footprint.standbysOn(e, isIdle = false).size
          s"$e: ${run.footprint.staysOn(e)}, $standbys standbys"
        }
        .mkString(", ")

  /** Whether a batch has placed a worker elsewhere although steps with it were not over. */
  def isTakenInHaste(batch: Long, seat: Seat): Boolean = run.footprint.relocations.exists { r =>
    r.seat == seat && r.taken.contains(batch) && batch - r.since > setup.placement.patienceBatches
  }

  /** Whether nothing is under way but a batch, and every worker is where it has run last. */
  def isQuiet: Boolean =
    driver.isReady && state.decision.exists(_.sealedSteps.isEmpty) && driver.openPlans.isEmpty &&
      !isRelocating && !isArriving && setup.groups.forall { group =>
        (0 until state.currentTable(group.id).workers).forall { worker =>
          group.operators.forall(o =>
            run.footprint.executorOf(o.id, worker).exists(world.executor(_).isDefined)
          )
        }
      }

  /** Whether every worker of an executor has a standby that keeps up, as the driver knows it and as
    * it is.
    */
  def canDoWithout(executor: Executor): Boolean = (for {
    group <- setup.groups.iterator
    worker <- 0 until state.currentTable(group.id).workers
    if group.operators.exists(o => run.footprint.executorOf(o.id, worker).contains(executor.name))
    standbys = run.footprint.standbysOf(group, worker)
  } yield standbys.nonEmpty &&
    standbys.forall(world.executor(_).exists(standsBy(_, group, worker))))
    .reduceOption(_ && _)
    .contains(true)

  private def standsBy(executor: Executor, group: Group, worker: Int): Boolean =
    group.stores.forall { store =>
      val bins = state.currentTable(group.id).binsOf(worker)
      executor.registry.holding(WorkerId(store.in(driver.id), worker)).exists { here =>
        here.keepsUp(world.oracle.settled, behind = 0) && !here.areIncomplete && bins.forall(
          here.has
        )
      }
    }
}
