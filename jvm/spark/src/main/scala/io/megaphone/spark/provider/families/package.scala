// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

/** The column families of a store: which exist, how each encodes its rows, and which bin a key
  * belongs to. It depends on `rows`, `partitioning`, the core's `log` and `plan`, and Spark's
  * partition key extractors. A caller may rely on a key having the bin to which Spark's exchange
  * routed its row.
  */
package object families
