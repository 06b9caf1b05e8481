// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.format.{FileName, StateName}
import io.megaphone.routing.RoutingTable
import io.megaphone.store.Sweep

/** The driver's sweep of files that no version needs any more (rules 27 and 28). */
final class Sweeping(world: World) {
  private val setup = world.setup

  /** What may be deleted once `version`, which is settled, is the oldest one retained. */
  def round(version: Long, before: Map[Long, RoutingTable], ids: Map[StoreId, Vector[String]]): SweepRound = {
    val files = for { group <- setup.groups; store <- setup.storesOf(group.id) } yield {
      val listed = world.checkpoint.files(store).list
      val unneeded =
        if (!world.planted.is(Bug.OwnerDeletes)) Sweep.candidates(listed, referenced(store, group.id, version, before, ids), version)
        else
          heads(store, before(group.id), version, ids).flatMap { case (head, bins) =>
            Sweep.candidates(listed.filter(_.worker == head.worker), new Sweep(world.recovery(store)).referenced(Seq(head -> bins)), version)
          }.toSet
      store -> unneeded
    }
    world.trace(s"sweep at version $version: ${files.filter(_._2.nonEmpty).map { case (s, f) => s"$s: ${f.mkString(" ")}" }.mkString(", ")}")
    new SweepRound(version, files.toMap, this)
  }

  private[simulation] def delete(round: SweepRound, version: Long, before: Map[Long, RoutingTable], ids: Map[StoreId, Vector[String]]): Unit =
    for { group <- setup.groups; store <- setup.storesOf(group.id); files = round.files(store) if files.nonEmpty } {
      val unneeded = if (setup.isV2 || world.planted.is(Bug.OwnerDeletes)) files else files -- referenced(store, group.id, version, before, ids)
      world.trace(s"deletes of $store: ${unneeded.mkString(" ")}")
      world.deleted += unneeded.size
      unneeded.foreach(world.checkpoint.files(store).delete)
    }

  private def referenced(store: StoreId, group: Long, version: Long, before: Map[Long, RoutingTable], ids: Map[StoreId, Vector[String]]): Set[FileName] =
    new Sweep(world.recovery(store)).referenced(heads(store, before(group), version, ids))

  private def heads(store: StoreId, table: RoutingTable, version: Long, ids: Map[StoreId, Vector[String]]): Vector[(FileName, Iterable[Int])] =
    Vector.range(0, table.workers).map { worker =>
      val id = ids.get(store).fold(StateName.FixedId)(_(worker))
      FileName(worker, StateName(version, id)) -> table.binsOf(worker).toSeq
    }
}

/** What one sweep found, by store. */
final class SweepRound(val version: Long, val files: Map[StoreId, Set[FileName]], sweeping: Sweeping) {

  /** Deletes it. `version` is now the oldest one retained, or older. */
  def delete(now: Long, before: Map[Long, RoutingTable], ids: Map[StoreId, Vector[String]]): Unit = sweeping.delete(this, now, before, ids)
}
