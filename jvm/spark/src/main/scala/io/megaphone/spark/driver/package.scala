// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The driver's side of the plugin: plans each batch of each running query, writes the plan log,
  * answers the executors, starts sweeps. It depends on the core's `runtime` for every decision, on
  * what that is made of, and on `checkpoint`, `conf` and `wire`. A caller may rely on the same
  * answer if it asks for a batch again, and on a plan being in the plan log when `submit` returns.
  */
package object driver
