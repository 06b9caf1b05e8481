// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.util.zip.{DeflaterOutputStream, InflaterInputStream}

import org.apache.hadoop.conf.Configuration

/** Encodes a Hadoop configuration, with the credentials that are in it, for the plugin's channel:
  * about 20 KB. Threads: any.
  */
object HadoopSettings {
  def encode(conf: Configuration): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(1 << 15)
    val out = new DataOutputStream(new DeflaterOutputStream(bytes))
    conf.write(out)
    out.close()
    bytes.toByteArray
  }

  /** Decodes what `encode` returned. */
  def decode(bytes: Array[Byte]): Configuration = {
    val conf = new Configuration(false)
    conf.readFields(new DataInputStream(new InflaterInputStream(new ByteArrayInputStream(bytes))))
    conf
  }
}
