// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** How a row finds its worker: key, hash, bin, worker. It depends on the core's `plan` and on
  * Spark's `HashPartitioning`. A caller may rely on the hash being Spark's own, so that the
  * exchange and the state store compute the same bin.
  */
package object partitioning
