// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

/** A clock that runs only while someone waits. */
class Hands extends Clock {
  var nanoTime = 0L
  var onWait: () => Unit = () => ()
  override def waitOn(monitor: Object, nanos: Long): Unit = { nanoTime += nanos; onWait() }
}
