// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A query whose state could only be re-routed wrongly is refused by name. */
final class UnroutableGroupException(message: String)
    extends RuntimeException(message)
    with MegaphoneError {
  override def condition: String = "UNROUTABLE_GROUP"
}
