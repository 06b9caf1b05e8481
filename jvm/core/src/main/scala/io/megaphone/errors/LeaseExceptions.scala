// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A task attempt that must not commit: a newer attempt has taken its lease. */
final class DetachedLeaseException(attempt: Long)
    extends RuntimeException(
      s"Task attempt $attempt has lost its lease on the state to a newer attempt and must not " +
        "commit; nothing of it was kept."
    )
    with MegaphoneError {
  override def condition: String = "LEASE_LOST"
}

/** A task attempt that another one, which still runs, kept waiting for a worker's state. */
final class LeaseTimeoutException(store: String, worker: Int, waitMs: Long, owner: Long)
    extends RuntimeException(
      s"The state of worker $worker ($store) is in use by task attempt $owner since over " +
        s"$waitMs ms; the task will be tried again."
    )
    with MegaphoneError {
  override def condition: String = "LEASE_TIMEOUT"
}
