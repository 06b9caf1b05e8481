// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.IOException

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.runtime.FileSettings
import io.megaphone.spark.wire.MessageBytes
import io.megaphone.testkit.{Allocated, BitFlips}

/** A Hadoop configuration as bytes. */
class HadoopSettingsSuite extends AnyFunSuite {
  private val random = new Random(1)
  private val conf = {
    val made = new Configuration(false)
    for (i <- 1 to 50) made.set(s"fs.some.key$i", s"value $i of ${random.nextInt()}")
    made
  }
  private val bytes = HadoopSettings.encode(conf)
  private def shown(conf: Configuration) = conf.asScala.map(e => e.getKey -> e.getValue).toMap

  test("a configuration comes back as it was") {
    assert(shown(HadoopSettings.decode(bytes)) == shown(conf))
  }

  test("damage in a message with settings is an error") {
    val message = MessageBytes.encode(FileSettings(Some(bytes)))
    for (damaged <- BitFlips.of(message))
      assert(intercept[IOException](MessageBytes.decode(damaged)).getMessage.contains("checksum"))
  }

  test("damage that no message finds is an error or other settings, and takes no memory") {
    def isRefused(damaged: Array[Byte]): Boolean = {
      var refused = false
      val allocated = Allocated.bytesOf {
        try { val _ = HadoopSettings.decode(damaged) }
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
    assert(accepted < 32, "bits that fill up a byte, those about the compressor, and a few more")
    for (length <- 0 to 300; _ <- 1 to 10) assert(isRefused(random.nextBytes(length)))
  }
}
