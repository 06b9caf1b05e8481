// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

/** What a run lost with an executor.
  *
  * @param batch
  *   the batch that was planned last
  * @param workers
  *   how many workers ran there last
  * @param promoted
  *   how many of them go on where an executor stood by; the others are read from the checkpoint
  */
final case class Loss(executor: String, batch: Long, workers: Int, promoted: Int)

/** What has happened to a run's workers since somebody asked last. */
final case class PlacingNews(losses: Vector[Loss], ended: Vector[Relocation]) {
  def isEmpty: Boolean = losses.isEmpty && ended.isEmpty
}
