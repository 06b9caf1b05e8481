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

/** The losses of a run.
  *
  * Threads: one at a time. `all` may be called by any thread at any time.
  */
private[runtime] final class Losses {
  private var untold = Vector.empty[Loss]
  @volatile private var known = Vector.empty[Loss]

  /** The newest last. The oldest of very many are forgotten. */
  def all: Vector[Loss] = known

  def add(loss: Loss): Unit = {
    untold :+= loss
    known = (known :+ loss).takeRight(Losses.KnownMax)
  }

  /** Those since this was asked last. */
  def takeNew(): Vector[Loss] = {
    val some = untold
    untold = Vector.empty
    some
  }
}

private object Losses {
  private val KnownMax = 1000
}

/** What has happened to a run's workers since somebody asked last. */
final case class PlacingNews(losses: Vector[Loss], ended: Vector[Relocation]) {
  def isEmpty: Boolean = losses.isEmpty && ended.isEmpty
}
