// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.{DamagedFileException, MissingFileException}
import io.megaphone.format.{FileName, StateName}
import io.megaphone.state.{Holding, Registry}

/** Prepares copies ahead of their step, in the background: rule 19.
  *
  *   1. No copy yet: the image block of the source's executor makes it. A block that is not there
  *      yet may come; once the source is `PatienceVersions` beyond it, the files are read instead.
  *   1. A copy behind the settled name: the tail block if one tail is missing, else the files.
  *   1. A copy that cannot be brought up, or is damaged, is dropped; the next call starts again.
  *   1. A tenth of the memory budget stays free for batches: what a copy has beyond that goes to
  *      disk, bin by bin. Where the disk is full the copy is dropped, and an SpillException tells
  *      so.
  *
  * A death of the source: the files. Of this executor: the duty goes to another. A cancelled plan:
  * the duty is no longer named, and the copy is dropped. One call at a time for a duty.
  */
final class Preparer(
    registry: Registry,
    recovery: Recovery,
    blocks: TransferBlocks,
    peers: Peers,
    deadlineMs: Long
) {
  private val catchUp = new CatchUp(recovery)

  /** Works on one duty; gives the version that the copy has now, or None if there is none yet. */
  def apply(duty: ReplicaDuty): Option[Long] =
    try {
      val existing = registry.replica(duty.key).orElse(make(duty))
      existing.flatMap(copy =>
        if (bring(copy, duty)) Some(copy.base.version) else { registry.dropReplica(duty.key); None }
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
    val copy = new Holding(duty.key.source, duty.binsCount)
    loaded.bins.valuesIterator.foreach(copy.put)
    copy.restart(duty.settled, Vector.empty)
    copy.spill(registry.budget.excessOfReplicas)
    copy
  }

  /** Whether the copy is at the settled name, or beyond it. Its monitor is not held while a peer is
    * waited for: a task may want the copy now.
    */
  private def bring(copy: Holding, duty: ReplicaDuty): Boolean = {
    val tail =
      if (copy.base.version + 1 == duty.settled.version) pull(duty, duty.settled, BlockKind.Tail)
      else None
    copy.synchronized {
      val isThere = copy.base.version >= duty.settled.version ||
        tail.exists { case (block, bytes) => blocks.applyTail(block.toString, bytes, copy) } ||
        catchUp(copy, duty.settled, duty.tableHash).isDefined
      if (isThere) copy.spill(registry.budget.excessOfReplicas)
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
