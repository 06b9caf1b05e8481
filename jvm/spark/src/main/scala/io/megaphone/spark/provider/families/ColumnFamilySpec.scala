// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** The arguments that a column family was created with. */
private[provider] final case class ColumnFamilySpec(
    keys: KeyStateEncoderSpec,
    values: StructType,
    isMultiValued: Boolean,
    isInternal: Boolean
)
