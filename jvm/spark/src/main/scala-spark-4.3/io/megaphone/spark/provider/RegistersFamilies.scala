// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, ReadStateStore}
import org.apache.spark.sql.types.StructType

import io.megaphone.spark.provider.families.ColumnFamilySpec

/** Spark 4.3 registers existing column families with reading handles, too. */
private[provider] trait RegistersFamilies extends ReadStateStore {
  protected def rows: BinnedRows

  override def registerColFamily(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = rows.families.created
    .create(name, ColumnFamilySpec(spec, valueSchema, useMultipleValuesPerKey, isInternal))
}
