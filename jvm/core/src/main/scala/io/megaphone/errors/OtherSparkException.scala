// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** The jar was built for another minor version of Spark than the one that runs. Thrown when the
  * application starts, before any session exists.
  *
  * @param builtFor
  *   the jar's minor version of Spark, for example 4.3
  * @param running
  *   the version of Spark that runs, for example 4.2.0
  */
final class OtherSparkException(builtFor: String, running: String)
    extends UnsupportedOperationException(
      s"This jar of spark-megaphone was built for Spark $builtFor, but Spark $running runs; put " +
        "the jar whose name has the version that runs into spark.jars, or start the session with " +
        "spark_megaphone.configure, which chooses it."
    )
    with MegaphoneError {
  override def condition: String = "JAR_FOR_OTHER_SPARK"
}
