// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{PrefixKeyScanStateEncoderSpec, UnsafeRowDataEncoder}
import org.apache.spark.sql.types.StructType

/** Keys whose first columns are asked for together, as bytes that begin alike: by the encoder that Spark has for its own sorted store. One thread. */
private[provider] final class PrefixedKeys(spec: PrefixKeyScanStateEncoderSpec, valueSchema: StructType) {
  private val encoder = spec.toEncoder(new UnsafeRowDataEncoder(spec, valueSchema), useColumnFamilies = false)

  def bytesOf(key: UnsafeRow): Array[Byte] = encoder.encodeKey(key)

  /** What the bytes of all keys with these first columns begin with. */
  def bytesOfPrefix(prefix: UnsafeRow): Array[Byte] = encoder.encodePrefixKey(prefix)

  /** The key; the row is reused. */
  def key(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow = encoder.decodeKey(java.util.Arrays.copyOfRange(bytes, offset, offset + length))
}
