// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

final class InvalidConfException(key: String, value: String, reason: String)
    extends IllegalArgumentException(
      s"The configuration $key has the value '$value', which cannot be: $reason"
    )
    with MegaphoneError {
  override def condition: String = "INVALID_CONFIGURATION"
}
