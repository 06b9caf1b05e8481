// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The plugin for Spark: hosts the core's runtime on a Spark driver and its executors. Everything
  * that can be decided without Spark is in the core, on which this package depends. Its own
  * packages import one way: `conf`, `errors`, `checkpoint`, `partitioning`, `wire` and `metrics`;
  * above them `driver` and `executor`; then `provider`, `rule` and `faces`.
  */
package object spark
