// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The assembly: the driver's half (QueryRun), the executor's half (ExecutorAgent) and the task's
  * half (WorkerTask) of a migrating query, over a few small traits. It depends on all parts of the
  * core, and on no Spark and no thread: Spark and the seeded simulation are its two hosts. A caller
  * may rely on messages being expendable: a lost, late or repeated one costs time, never
  * correctness.
  */
package object runtime
