// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The physical rule that routes every micro-batch: finds the groups of its plan, asks the driver
  * for their tables, and rewrites exchanges and state infos. It depends on the core's `plan` and
  * `runtime`, and on `conf`, `driver`, `partitioning` and `executor`, which receives each task's
  * assignment. A caller may rely on a plan being left alone, rewritten completely, or refused with
  * an error; it is never rewritten in part.
  */
package object rule
