// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.execution.streaming.state.ReadStateStore

/** In Spark 4.2 only writing handles create column families. */
private[provider] trait RegistersFamilies extends ReadStateStore {
  protected def rows: BinnedRows
}
