// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream,
  ObjectStreamClass
}

import io.megaphone.runtime.Message

/** Encodes messages as bytes for the plugin's channel. Spark's RPC resolves classes with its own
  * class loader, which does not see a jar given by `spark.jars`. An object of a class of ours would
  * break the executor's connection to the driver.
  *
  * Threads: any.
  */
object MessageBytes {

  def encode(message: Message): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(512)
    val out = new ObjectOutputStream(bytes)
    out.writeObject(message)
    out.close()
    bytes.toByteArray
  }

  /** Decodes what `encode` returned. */
  def decode(bytes: Array[Byte]): Message = {
    val in = new ObjectInputStream(new ByteArrayInputStream(bytes)) {
      override def resolveClass(c: ObjectStreamClass): Class[_] =
        try Class.forName(c.getName, false, MessageBytes.getClass.getClassLoader)
        catch { case _: ClassNotFoundException => super.resolveClass(c) }
    }
    in.readObject().asInstanceOf[Message]
  }
}
