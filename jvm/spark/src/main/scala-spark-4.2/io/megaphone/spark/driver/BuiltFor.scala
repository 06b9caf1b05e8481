// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

/** The minor version of Spark that this jar was built for. */
object BuiltFor {
  val SparkMinor = "4.2"
}
