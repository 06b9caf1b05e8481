// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

/** Bytes that came to an executor for bins.
  *
  * @param fromPeer
  *   of blocks and files that other executors have sent
  * @param fromCheckpoint
  *   of files
  */
final case class Traffic(fromPeer: Long = 0, fromCheckpoint: Long = 0) {
  def +(more: Traffic): Traffic =
    Traffic(fromPeer + more.fromPeer, fromCheckpoint + more.fromCheckpoint)
}
