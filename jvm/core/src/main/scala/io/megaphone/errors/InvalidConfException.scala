// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A configuration key has an invalid value.
  *
  * @param reason
  *   why it is invalid, and what is allowed
  */
final class InvalidConfException(key: String, value: String, reason: String)
    extends IllegalArgumentException(
      s"$key is set to '$value', which is invalid: $reason"
    )
    with MegaphoneError {
  override def condition: String = "INVALID_CONFIGURATION"
}
