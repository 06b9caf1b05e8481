// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The plugin for Spark: hosts the core's runtime on a Spark driver and its executors. Everything
  * that can be decided without Spark is in the core, on which this package depends. Its own
  * packages import one way: `metrics`, `conf`, `checkpoint`, `wire` and `partitioning`; above them
  * `executor` and `driver`; then `rule`, `provider` and `faces`.
  */
package object spark
