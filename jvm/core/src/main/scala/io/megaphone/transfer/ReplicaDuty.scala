// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.{ExecutorAddress, StateName}
import io.megaphone.state.{ForStep, ReplicaKey}

/** A replica that the driver asks an executor to have ready: bins of one source worker.
  *
  * @param image
  *   the name of the source's state that it published an image of; None if it publishes none,
  *   because the step moves so much: the replica is made of files then
  * @param settled
  *   the newest settled name of the source
  * @param tableHash
  *   content hash of the routing table under which the source wrote `settled`
  * @param address
  *   the source's executor, if it is known
  * @param imageAddress
  *   the executor that the source was on when it published the image, if it is known
  * @param progressAt
  *   the last batch in which executors copied more for the run than they ever had, or came nearer
  *   to a source; −1 if there was none
  * @param liveBytes
  *   about how many bytes of live records the bins have, if it is known
  */
final case class ReplicaDuty(
    key: ReplicaKey,
    bins: IndexedSeq[Int],
    binsCount: Int,
    image: Option[StateName],
    settled: StateName,
    tableHash: Long,
    address: Option[ExecutorAddress],
    imageAddress: Option[ExecutorAddress],
    progressAt: Long = -1,
    liveBytes: Option[Long] = None
) {

  /** The image, if it may still come and tails lead on from it. */
  def usableImage: Option[StateName] = image.filter { i =>
    imageAddress.isDefined && Preparer.tailsLeadOn(i, settled.version)
  }

  /** The block that brings the replica to a name: a part of it. */
  def block(name: StateName, kind: BlockKind, part: Int): BlockName = key.purpose match {
    case ForStep(step, target) => BlockName(key.store, key.source, target, name, kind, step, part)
  }
}
