// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** A bin whose log is as long as one can be.
  *
  * @param bytesMax
  *   how many bytes that is
  */
final class BinTooLargeException(bytesMax: Long)
    extends RuntimeException(
      s"The log of a bin would have more than $bytesMax bytes, which is the most that it can " +
        "have: keep less state, for example by a shorter watermark or time to live, or start the " +
        "query from a new checkpoint with more bins (spark.megaphone.bins)."
    )
    with MegaphoneError {
  override def condition: String = "BIN_TOO_LARGE"
}
