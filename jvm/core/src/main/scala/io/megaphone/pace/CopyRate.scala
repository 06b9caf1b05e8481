// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

/** How many bytes of records a second an executor may copy for a run.
  *
  * @param besideTasks
  *   while the executor runs tasks; 0: as many as it can
  * @param alone
  *   while it runs none; 0: as many as it can
  */
final case class CopyRate(besideTasks: Long, alone: Long)

object CopyRate {
  val Unlimited: CopyRate = CopyRate(0, 0)
}
