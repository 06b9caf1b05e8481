// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

/** Some tests take long, and are left out of `make test`. */
object LongRun {

  /** Whether all tests are to run. */
  def isOn: Boolean = sys.env.get("MEGAPHONE_TESTS").contains("all")
}
