// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

/** How a run's workers are placed.
  *
  * @param replicas
  *   how many executors stand by for each worker
  * @param isAuto
  *   whether the load is spread when executors have come or gone
  * @param tolerance
  *   how far from its part the load of an executor may be, as a fraction of the part
  * @param settleBatches
  *   batches without a change of executors before the load is spread
  * @param pilotBatches
  *   batches that a new executor runs one worker before it gets others; 0 for none
  * @param patienceBatches
  *   batches that a relocation waits for steps of plans with its worker
  */
final case class PlacementSettings(
    replicas: Int = 0,
    isAuto: Boolean = false,
    tolerance: Double = 0.1,
    settleBatches: Long = 2,
    pilotBatches: Long = 3,
    patienceBatches: Long = 10
)
