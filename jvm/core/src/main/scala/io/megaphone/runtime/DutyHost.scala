// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.state.ReplicaKey

/** The host of an executor's work on duties: it is told where the work is, and how it fails.
  *
  * Threads: the one that works.
  */
trait DutyHost {

  /** The work on a duty begins. */
  def begins(key: ReplicaKey): Unit

  /** The work on a duty has ended, however it did. */
  def ends(key: ReplicaKey): Unit

  /** Work on duties has failed: a step can do without replicas. May throw, which ends the work. */
  def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit
}
