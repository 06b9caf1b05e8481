// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** The query is refused, because some of its state cannot be re-routed consistently. */
final class UnroutableGroupException(message: String)
    extends RuntimeException(message)
    with MegaphoneError {
  override def condition: String = "UNROUTABLE_GROUP"
}
