// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A bin that the routing table gives to a worker is absent from its state: a fault of the
  * protocol. It is never read as an empty bin.
  *
  * @param store
  *   the store, or the name of the state, that the worker has
  */
final class MissingBinException(store: String, worker: Int, bin: Int)
    extends RuntimeException(
      s"Worker $worker ($store) should have bin $bin and does not; the batch stops rather than " +
        "take the bin for empty."
    )
    with MegaphoneError {
  override def condition: String = "MISSING_BIN"
}
