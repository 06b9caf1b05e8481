// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** What the tests of several packages stand on: a checkpoint in memory. It decides nothing, and
  * fails only where a test overrides it.
  */
package object testkit
