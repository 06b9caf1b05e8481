// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark

/** The metrics that Spark shows of each stateful operator. It depends on Spark alone. A caller may
  * rely on the names, which are public: dashboards read them.
  */
package object metrics
