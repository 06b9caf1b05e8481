// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

/** Rows as bytes: how keys and values are encoded for a bin's log and decoded, and the row
  * checksums of `spark.sql.streaming.stateStore.rowChecksum.enabled`. It depends on Spark's
  * encoders and on the core's `log`. A caller may rely on equal keys having equal bytes, and uses a
  * codec from one thread at a time.
  */
package object rows
