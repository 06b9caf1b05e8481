// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** What every exception of this package is: its message is one sentence for the reader, and its
  * condition is its name, by which other languages map it. [[Conditions]] lists them all.
  */
trait MegaphoneError { this: Throwable =>

  /** The stable name of what went wrong: it stays when the message changes. */
  def condition: String
}
