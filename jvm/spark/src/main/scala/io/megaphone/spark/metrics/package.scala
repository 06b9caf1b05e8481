// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The plugin's metrics, each defined once: those that Spark shows of each stateful operator, those
  * of the application, and those with labels. It depends on Spark and on the core's `protocol`,
  * `runtime` and `view`. A caller may rely on the names, which are public: dashboards read them.
  */
package object metrics
