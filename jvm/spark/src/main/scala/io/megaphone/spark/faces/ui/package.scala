// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** The pages of the tab, as pure functions: facts in, XML out. It depends on `faces.history` for
  * the facts. A caller may rely on every text being escaped, and on every number of a drawing being
  * in a table too.
  */
package object ui
