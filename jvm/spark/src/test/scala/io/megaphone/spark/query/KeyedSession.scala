// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Encoder, Encoders}

/** A session whose tests feed rows by key, and compare with a batch query over all that was fed. */
abstract class KeyedSession extends PluginSession {

  /** A stream of (k, v), v ascending; k repeats, and is null now and then. */
  protected final class Source(seed: Int = 3) {
    private val random = new Random(seed)
    private implicit val encoder: Encoder[(java.lang.Long, Long)] =
      Encoders.product[(java.lang.Long, Long)]
    private val fed = new FedStream[(java.lang.Long, Long)](spark)

    def stream: DataFrame = fed.stream.toDF("k", "v")
    def batch: DataFrame = fed.batch.toDF("k", "v")

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
          (k, fed.count.toLong + i)
        }
      fed.feed(rows)
    }
  }
}
