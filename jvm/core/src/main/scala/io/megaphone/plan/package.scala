// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** Which worker has which bin, and how that is to change: routing tables, moves, steps, plans, the
  * planner that finds moves, and the strategies that cut them into steps. It depends on `errors`,
  * and on `format` for the names of stores. A caller may rely on tables and plans being immutable,
  * and on every check being made before anything changes.
  */
package object plan
