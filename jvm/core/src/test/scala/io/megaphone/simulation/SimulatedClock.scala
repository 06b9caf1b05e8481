// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.pace.Clock

/** A clock whose time passes when someone waits, so that nobody does. */
final class SimulatedClock extends Clock {
  private var passed = 0L
  override def nanoTime: Long = passed
  override def waitOn(monitor: Object, nanos: Long): Unit = passed += nanos
}
