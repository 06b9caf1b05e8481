// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.{StateName, WorkerId}

/** A standby that the driver asks an executor to keep: the holding of a worker that runs elsewhere.
  *
  * @param bins
  *   the worker's bins at `settled`, but those that leave it next
  * @param settled
  *   the newest settled name of the worker
  * @param tableHash
  *   content hash of the routing table under which the worker wrote `settled`
  * @param liveBytes
  *   about how many bytes of live records the worker has
  */
final case class StandbyDuty(
    worker: WorkerId,
    bins: Vector[Int],
    binsCount: Int,
    settled: StateName,
    tableHash: Long,
    liveBytes: Long
)
