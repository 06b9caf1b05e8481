// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The errors of the plugin that need the host: refused queries and plans, invalid configuration, a
  * plan log that cannot be written. It depends on nothing; errors of bins, plans and files are the
  * core's. A caller may rely on a message that says what was wrong, what is allowed and what to do,
  * and, except for UnroutableGroupException, on a stable `condition`.
  */
package object errors
