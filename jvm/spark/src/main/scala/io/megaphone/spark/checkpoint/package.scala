// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The files of a checkpoint on Hadoop's file systems: delta files, plan log, sweeps, LZ4. It
  * depends on the core's `errors`, `format` and `checkpoint` and on Spark's checkpoint file
  * manager. A caller may rely on a file being complete if it exists, and on a plan log record never
  * being overwritten.
  */
package object checkpoint
