// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

/** A session whose tests feed rows by key, and compare with a batch query over all that was fed. */
abstract class KeyedSession extends PluginSession {

  /** A stream of (k, v), v ascending; k repeats, and is null now and then. */
  protected final class Source(seed: Int = 3) {
    private val random = new Random(seed)
    private var fed = Vector.empty[(java.lang.Long, Long)]
    private implicit val encoder: Encoder[(java.lang.Long, Long)] =
      Encoders.product[(java.lang.Long, Long)]
    private val memory = MemoryStream[(java.lang.Long, Long)](spark)

    def stream: DataFrame = memory.toDF().toDF("k", "v")
    def batch: DataFrame = spark.createDataset(fed).toDF("k", "v")

    def feed(): Unit = {
      val rows = Seq
        .fill(60)(
          (
            if (random.nextInt(50) == 0) null
            else java.lang.Long.valueOf(random.nextInt(150).toLong),
            0L
          )
        )
        .zipWithIndex
        .map { case ((k, _), i) =>
          (k, fed.size.toLong + i)
        }
      fed ++= rows
      memory.addData(rows)
      ()
    }
  }
}
