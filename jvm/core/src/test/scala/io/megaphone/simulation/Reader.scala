// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.runtime.StateReader

/** A reader of the state at one version, as the state data source is one: the shipped
  * [[io.megaphone.runtime.StateReader]] for each partition of each store.
  */
object Reader {

  /** Compares every bin with the oracle. */
  def check(world: World, version: Long): Unit = {
    world.trace(s"a reader reads version $version")
    val history = world.history
    for (group <- world.setup.groups; store <- group.stores)
      for (partition <- 0 until group.firstWorkers)
        try checkPartition(world, version, history, store, partition)
        catch {
          case e: Violation => throw e
          case e: Exception if world.isRefusal(e) => throw new Refused(e)
          case e: Exception if world.isExpected(e) =>
            world.trace(s"the reader is told to try again: $e")
          case e: Exception =>
            throw new Violation(s"$store cannot be read at version $version: $e", e)
        }
  }

  private def checkPartition(
      world: World,
      version: Long,
      history: History,
      store: StoreId,
      partition: Int
  ): Unit = {
    def ids(of: Long): VersionIds =
      if (!world.setup.isV2) VersionIds.Fixed
      else world.checkpoint.idsAt(of).get.getOrElse(store, VersionIds.Fixed)
    val reader = new StateReader(history, store, partition, world.recovery(store))
    reader.check(version, ids)
    val holding = reader.load(version, ids)
    reader.bins.foreach(bin => world.oracle.check(version, store, bin, holding.stateOf(bin)))
    if (version > world.oracle.oldest)
      world.oracle.checkChanges(version, store, reader.bins, reader.changes(version, ids))
  }
}
