// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.{DamagedFileException, MissingFileException}
import io.megaphone.format.{FileName, StateName}
import io.megaphone.state.{Holding, Registry}

/** Prepares replicas ahead of their step, in the background: rule 19.
  *
  * Given a duty: the replica's key, the name of the source's image, and its newest settled name.
  *   1. If there is no replica yet, pull the image block from the source's executor and make the
  *      replica of it. The block may come later; once the source is `PatienceVersions` ahead of the
  *      image, read the files instead. ''The source dies:'' the files are read.
  *   1. If the replica is behind the settled name, apply the tail block if one tail is missing, and
  *      the tails in the files if not. If neither leads there, or anything is damaged, drop the
  *      replica; the next call starts again.
  *   1. Keep a tenth of the memory budget free for batches: spill the rest of the replica to disk,
  *      bin by bin. If the disk is full, drop the replica and throw SpillException.
  *
  * ''This executor dies:'' the driver gives the duty to another executor. ''The plan is
  * cancelled:'' orders no longer name the duty, and the replica is dropped.
  *
  * Threads: any; one call at a time for a duty.
  */
final class Preparer(
    registry: Registry,
    recovery: Recovery,
    blocks: TransferBlocks,
    peers: Peers,
    deadlineMs: Long
) {
  private val catchUp = new CatchUp(recovery)

  /** Works on one duty. Returns the version that the replica has reached, or None if there is no
    * replica yet. Throws SpillException if there is no room for it.
    */
  def apply(duty: ReplicaDuty): Option[Long] =
    try {
      val existing = registry.replica(duty.key).orElse(make(duty))
      existing.flatMap(replica =>
        if (bring(replica, duty)) Some(replica.base.version)
        else { registry.dropReplica(duty.key); None }
      )
    } catch {
      case _: DamagedFileException | _: MissingFileException => registry.dropReplica(duty.key); None
      case e: Throwable => registry.dropReplica(duty.key); throw e
    }

  private def make(duty: ReplicaDuty): Option[Holding] = {
    val made = fromBlock(duty).orElse(
      if (duty.settled.version - duty.image.version >= Preparer.PatienceVersions)
        Some(fromFiles(duty))
      else None
    )
    made.foreach(registry.putReplica(duty.key, _))
    made
  }

  private def fromBlock(duty: ReplicaDuty): Option[Holding] =
    pull(duty, duty.image, BlockKind.Image).flatMap { case (block, bytes) =>
      try
        Some(
          blocks.replicaOf(
            block.toString,
            bytes,
            duty.binsCount,
            log => { log.spill(registry.budget.excessOfReplicas); () }
          )
        )
      catch { case _: DamagedFileException => None }
    }

  private def fromFiles(duty: ReplicaDuty): Holding = {
    val loaded = recovery.load(FileName(duty.key.source, duty.settled), duty.bins, duty.tableHash)
    val replica = new Holding(duty.key.source, duty.binsCount)
    loaded.bins.valuesIterator.foreach(replica.put)
    replica.restart(duty.settled, Vector.empty)
    replica.spill(registry.budget.excessOfReplicas)
    replica
  }

  /** Brings a replica to the settled name. Returns whether it is there, or at a later name. It does
    * not hold the replica's monitor while it waits for a peer, because a task may need the replica
    * now.
    */
  private def bring(replica: Holding, duty: ReplicaDuty): Boolean = {
    val tail =
      if (replica.base.version + 1 == duty.settled.version) pull(duty, duty.settled, BlockKind.Tail)
      else None
    replica.synchronized {
      val isThere = replica.base.version >= duty.settled.version ||
        tail.exists { case (block, bytes) => blocks.applyTail(block.toString, bytes, replica) } ||
        catchUp(replica, duty.settled, duty.tableHash).isDefined
      if (isThere) replica.spill(registry.budget.excessOfReplicas)
      isThere
    }
  }

  private def pull(
      duty: ReplicaDuty,
      name: StateName,
      kind: BlockKind
  ): Option[(BlockName, Array[Byte])] = {
    val block = duty.block(name, kind)
    duty.address.flatMap(peers.pull(block, _, deadlineMs)).map(block -> _)
  }
}

object Preparer {
  private val PatienceVersions = 2L
}
