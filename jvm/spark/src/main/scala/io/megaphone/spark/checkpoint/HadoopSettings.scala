// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, IOException
}
import java.util.zip.{DeflaterOutputStream, InflaterInputStream}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration

/** Encodes a Hadoop configuration, with the credentials that are in it, for the plugin's channel:
  * about 20 KB. The message that carries the bytes finds damage: it has a CRC-32C. The Adler-32 of
  * the compressor fits one in about 100,000 changes of a single bit. Threads: any.
  */
object HadoopSettings {
  def encode(conf: Configuration): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(1 << 15)
    val out = new DataOutputStream(new DeflaterOutputStream(bytes))
    conf.write(out)
    out.close()
    bytes.toByteArray
  }

  /** Decodes what `encode` returned. Throws IOException if the bytes are no configuration. */
  def decode(bytes: Array[Byte]): Configuration =
    try {
      // Whole at first: its checksum is at the end, and Hadoop believes any length that it reads.
      val raw = new InflaterInputStream(new ByteArrayInputStream(bytes)).readAllBytes()
      val conf = new Configuration(false)
      conf.readFields(new DataInputStream(new ByteArrayInputStream(raw)))
      conf
    } catch {
      case NonFatal(e) =>
        throw new IOException(s"The settings of a query's files are damaged on their way: $e", e)
    }
}
