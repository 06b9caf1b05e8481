// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.execution.streaming.state.ReadStateStore

/** Spark 4.2 creates column families by handles that write only. */
private[provider] trait RegistersFamilies extends ReadStateStore {
  protected def rows: BinnedRows
}
