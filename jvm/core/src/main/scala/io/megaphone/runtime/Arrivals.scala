// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

/** What opening took: counts of bins and bytes, by where they came from. One thread. */
final class Arrivals {
  var binsIn, binsRelabelled, binsFromPeer, binsFromCheckpoint: Int = 0
  var bytesFromPeer, bytesFromCheckpoint, waitNanos: Long = 0L

  /** Whether the worker's own bins were read from files, as after the loss of an executor. */
  var isRecovered = false

  private[megaphone] def waiting[A](f: => A): A = {
    val start = System.nanoTime
    try f
    finally waitNanos += System.nanoTime - start
  }
}
