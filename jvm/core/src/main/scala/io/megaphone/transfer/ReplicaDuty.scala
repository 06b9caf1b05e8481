// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.{ReplicaKey, StateName}
import io.megaphone.format.ExecutorAddress

/** What the driver asks a target's executor to have ready for a step: bins of one source worker for
  * one target worker.
  *
  * @param image
  *   the name at which the source published an image
  * @param settled
  *   the newest settled name of the source
  * @param tableHash
  *   content hash of the routing table that the source wrote that name under
  * @param address
  *   the source's executor, where it is known
  */
final case class ReplicaDuty(
    key: ReplicaKey,
    bins: Vector[Int],
    binsCount: Int,
    image: StateName,
    settled: StateName,
    tableHash: Long,
    address: Option[ExecutorAddress]
)
