// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.IOException

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.testkit.{Allocated, BitFlips}

/** A Hadoop configuration as bytes. */
class HadoopSettingsSuite extends AnyFunSuite {
  private val conf = {
    val made = new Configuration(false)
    for (i <- 1 to 50) made.set(s"fs.some.key$i", s"value $i of ${Random.nextInt()}")
    made
  }
  private val bytes = HadoopSettings.encode(conf)
  private def shown(conf: Configuration) = conf.asScala.map(e => e.getKey -> e.getValue).toMap

  test("a configuration comes back as it was") {
    assert(shown(HadoopSettings.decode(bytes)) == shown(conf))
  }

  test("any damage is an error that says so, and takes no memory") {
    def isRefused(damaged: Array[Byte]): Boolean = {
      var refused = false
      val allocated = Allocated.bytesOf {
        try assert(shown(HadoopSettings.decode(damaged)) == shown(conf)) // some bits say nothing
        catch {
          case e: IOException =>
            refused = true
            assert(e.getMessage.startsWith("The settings of a query's files are damaged"))
        }
      }
      assert(allocated < (16L << 20))
      refused
    }
    for (length <- bytes.indices) assert(isRefused(bytes.take(length)))
    val accepted = BitFlips.of(bytes).count(!isRefused(_))
    assert(accepted < 16, "but bits that fill up a byte, or are about the compressor")
    for (length <- 0 to 300; _ <- 1 to 10) assert(isRefused(Random.nextBytes(length)))
  }
}
