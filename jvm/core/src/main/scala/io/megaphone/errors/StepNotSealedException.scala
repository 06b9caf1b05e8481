// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A record could not be written to the plan log, so the batch must not go on. */
final class StepNotSealedException(message: String)
    extends RuntimeException(message)
    with MegaphoneError {
  override def condition: String = "PLAN_LOG_NOT_WRITTEN"
}
