// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

/** One line per event. Off while schedules run by the thousand; a schedule that fails is run again
  * with it on.
  */
final class Trace(isOn: Boolean) {
  private val lines = mutable.ArrayBuffer.empty[String]

  def apply(line: => String): Unit = if (isOn) lines += line
  def last(count: Int): Vector[String] = lines.takeRight(count).toVector
}
