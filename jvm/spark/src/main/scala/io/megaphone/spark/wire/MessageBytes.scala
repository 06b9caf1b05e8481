// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, IOException, ObjectInputFilter, ObjectInputStream,
  ObjectOutputStream, ObjectStreamClass
}

import scala.util.control.NonFatal

import io.megaphone.format.{Checksum, Decoder, Encoder}
import io.megaphone.runtime.Message

/** Encodes messages as bytes for the plugin's channel: a checksum (CRC-32C), and the serialized
  * message. Spark's RPC resolves classes with its own class loader, which does not see a jar given
  * by `spark.jars`. An object of a class of ours would break the executor's connection to the
  * driver.
  *
  * Threads: any.
  */
object MessageBytes {

  def encode(message: Message): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(512)
    val out = new ObjectOutputStream(bytes)
    out.writeObject(message)
    out.close()
    val body = bytes.toByteArray
    new Encoder(ChecksumBytes).int(Checksum.of(body)).toBytes ++ body
  }

  /** Decodes what `encode` returned. Throws IOException if the bytes are anything else. Makes only
    * objects of messages and of the standard libraries, and no more of them than the bytes can
    * hold.
    */
  def decode(bytes: Array[Byte]): Message = {
    if (bytes.length < ChecksumBytes) fail(s"it has ${bytes.length} bytes")
    val body = bytes.drop(ChecksumBytes)
    val expected = new Decoder("message", bytes, 0, ChecksumBytes).int()
    if (Checksum.of(body) != expected) fail(f"its checksum is not 0x$expected%08x")
    try {
      val in = new ObjectInputStream(new ByteArrayInputStream(body)) {
        override def resolveClass(c: ObjectStreamClass): Class[_] =
          try Class.forName(c.getName, false, MessageBytes.getClass.getClassLoader)
          catch { case _: ClassNotFoundException => super.resolveClass(c) }
      }
      in.setObjectInputFilter(filterOf(body.length))
      in.readObject().asInstanceOf[Message]
    } catch { case NonFatal(e) => fail(e.toString, e) }
  }

  private def filterOf(length: Int): ObjectInputFilter = ObjectInputFilter.Config.createFilter(
    s"maxarray=$length;maxdepth=$DepthMax;io.megaphone.**;scala.**;java.lang.*;java.util.*;!*"
  )

  private def fail(why: String, cause: Throwable = null): Nothing = throw new IOException(
    s"A message between driver and executors is damaged: $why. It is ignored; check that both " +
      "have the same jar of spark-megaphone.",
    cause
  )

  private val ChecksumBytes = 4
  private val DepthMax = 200 // of objects within objects
}
