// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import org.apache.spark.sql.execution.streaming.state.ReadStateStore

/** Spark 4.2 creates column families by handles that write only. */
private[provider] trait FamilyRegister extends ReadStateStore {
  protected def rows: BinnedRows
}
