// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The assembly, in four parts: `QueryRun` is the driver's, `ExecutorAgent` the executor's,
  * `WorkerTask` the task's, `StateReader` the reader's. They reach the world through a few small
  * traits. It depends on all parts of the core, and on no Spark and no thread: Spark and the seeded
  * simulation are its two hosts. A caller may rely on messages being expendable: a lost, late or
  * repeated one costs time, never correctness.
  */
package object runtime
