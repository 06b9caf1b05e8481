// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

final class InvalidConfException(key: String, value: String, reason: String)
    extends IllegalArgumentException(
      s"The configuration $key has the value '$value', which cannot be: $reason"
    ) {

  /** The stable name of the error, by which other languages map it. */
  val condition: String = "INVALID_CONFIGURATION"
}
