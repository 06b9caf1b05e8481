// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A bin that the routing table gives to a worker, and that its state lacks: a fault of the
  * protocol, never to be read as an empty bin.
  */
final class MissingBinException(store: String, worker: Int, bin: Int)
    extends RuntimeException(
      s"Worker $worker ($store) should have bin $bin and does not; the batch stops rather than take the bin for empty."
    )
    with MegaphoneError {
  override def condition: String = "MISSING_BIN"
}
