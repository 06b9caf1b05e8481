// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import io.megaphone.format.{Decoder, Encoder}

/** What one executor asks another for, and the answer, as bytes: blocks by their names.
  *
  * An answer has the first of the blocks that were asked for, or says of them that they are not
  * there. It ends once it has `AnswerBytes`, and the asker asks for the rest again. So it takes
  * either end a few times the memory of that and of one block.
  */
object BlockBytes {
  private val AnswerBytes = 8 << 20

  def ask(names: Seq[String]): Array[Byte] = {
    val out = new Encoder()
    out.seq(names)(name => { out.string(name); () }).toBytes
  }

  /** Answers what `ask` made. Throws DamagedFileException if the request is anything else. */
  def answer(request: Array[Byte])(blockOf: String => Option[Array[Byte]]): Array[Byte] = {
    val in = new Decoder("a request for blocks", request)
    val out = new Encoder()
    for (name <- in.seq(in.string()).iterator.takeWhile(_ => out.size < AnswerBytes))
      out.option(blockOf(name))(bytes => { out.blob(bytes); () })
    out.toBytes
  }

  /** The blocks of an answer, in the order of the names. Throws DamagedFileException. */
  def blocks(answer: Array[Byte]): Vector[Option[Array[Byte]]] = {
    val in = new Decoder("an answer with blocks", answer)
    Iterator.continually(in).takeWhile(_.remaining > 0).map(_ => in.option(in.blob())).toVector
  }
}
