// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.checkpoint.Settled
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{StoreId, VersionIds}

/** A reader of the state at one version, as the state data source is one (rule 23): the table of
  * the batch before from the plan log, its ids from its commit log, and files; no memory of a run,
  * no lease.
  */
object Reader {

  /** Compares every bin with the oracle. */
  def check(world: World, version: Long): Unit = {
    world.trace(s"a reader reads version $version")
    val history = world.history
    val ids =
      if (world.setup.isV2) world.checkpoint.idsAt(version).get else Map.empty[StoreId, VersionIds]
    try checkAt(world, version, history, ids)
    catch {
      case e: Exception if world.isContested(e) => world.trace(s"the reader is told to wait: $e")
    }
  }

  private def checkAt(
      world: World,
      version: Long,
      history: History,
      ids: Map[StoreId, VersionIds]
  ): Unit =
    for { group <- world.setup.groups; store <- world.setup.storesOf(group.id) } {
      val table = history.tableAt(group.id, version - 1)
      for (partition <- 0 until group.firstWorkers) {
        val bins = Vector.range(partition, world.setup.bins, group.firstWorkers)
        bins.groupBy(table.workerOf).foreach { case (worker, owned) =>
          val loaded =
            try {
              val of = ids.getOrElse(store, VersionIds.Fixed)
              val head = Settled.headOf(store, of, version, worker)
              world.recovery(store).load(head, owned, table.contentHash)
            } catch {
              case e: Exception if world.isRefusal(e) => throw new Refused(e)
              case e: Exception if world.isContested(e) => throw e
              case e: Exception =>
                throw new Violation(
                  s"worker $worker of $store cannot be read at version $version: $e",
                  e
                )
            }
          owned.foreach(bin => world.oracle.check(version, store, bin, loaded.bins(bin).log))
        }
      }
    }
}
