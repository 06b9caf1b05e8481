// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.checkpoint.Sweep
import io.megaphone.format.{FileName, StateName}
import io.megaphone.plan.RoutingTable

/** The driver's sweep of files that no version needs any more (rules 27 and 28). */
final class Sweeping(world: World) {
  private val setup = world.setup

  /** Deletes what no version from `oldest` on needs. Files go one by one, in any order, and the
    * driver may die between two of them.
    */
  def apply(oldest: Settled, newest: Settled): Unit =
    for { group <- setup.groups; store <- setup.storesOf(group.id) } {
      val files = world.checkpoint.files(store)
      def referenced(heads: Vector[Sweep.Head]) = new Sweep(world.recovery(store)).referenced(heads)
      val heads = oldest.heads(group.id, store)
      val unneeded =
        if (!world.planted.is(Bug.OwnerDeletes)) {
          val needed = referenced(
            heads
          ) ++ (if (setup.isV2) Set.empty else referenced(newest.heads(group.id, store)))
          Sweep.unneeded(files.list, needed, oldest.version)
        } else
          heads
            .flatMap(head =>
              Sweep.unneeded(
                files.list.filter(_.worker == head.file.worker),
                referenced(Vector(head)),
                oldest.version
              )
            )
            .toSet
      if (unneeded.nonEmpty)
        world.trace(s"sweep for version ${oldest.version} of $store: ${unneeded.mkString(" ")}")
      val gone = world.dice.shuffle(unneeded.toVector.sortBy(_.toString))
      gone
        .take(
          if (world.faults.strikes(Fault.DriverDies)) world.dice.below(gone.size + 1) else gone.size
        )
        .foreach { file =>
          world.deleted += 1
          files.delete(file)
        }
    }
}

/** A settled version: the tables whose workers wrote it, and the workers' ids under checkpoint
  * format v2.
  */
final case class Settled(
    version: Long,
    tables: Map[Long, RoutingTable],
    ids: Map[StoreId, Vector[String]]
) {

  def heads(group: Long, store: StoreId): Vector[Sweep.Head] =
    Vector.tabulate(tables(group).workers) { worker =>
      val id = ids.get(store).flatMap(_.lift(worker)).getOrElse(StateName.FixedId)
      Sweep.Head(
        FileName(worker, StateName(version, id)),
        tables(group).binsOf(worker).toVector,
        tables(group).contentHash
      )
    }
}
