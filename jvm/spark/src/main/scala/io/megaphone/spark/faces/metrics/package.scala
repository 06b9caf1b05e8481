// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

/** The metrics of an application, for Spark's metrics system and for Prometheus: keeps them, and
  * gives them out. What they are is in `spark.metrics`. It depends on `driver`. A caller may rely
  * on the names, on counters that never fall while the application lives, and on the driver going
  * on whatever fails here.
  */
package object metrics
