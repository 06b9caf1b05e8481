// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{Decoder, Encoder, FileName}
import io.megaphone.transfer.{Answer, PushedFile, Question}

/** What one executor asks another for, or sends it, and the answer, as bytes. A request is for
  * blocks, by their names, or it brings a file, or it is a question (see [[QuestionBytes]]).
  *
  * What a question asks, and what a file is called and has, come with a checksum: else damage would
  * be another question, or another file.
  *
  * An answer with blocks has the first of the blocks that were asked for, or says of them that they
  * are not there. It ends once it has `BlocksBytes`, and the asker asks for the rest again. So it
  * takes either end a few times the memory of that and of one block. The answer to a file is empty.
  */
object PeerBytes {
  private val BlocksBytes = 8 << 20
  private val Blocks = 1
  private val File = 2
  private val Asked = 3

  def ask(names: Seq[String]): Array[Byte] = {
    val out = new Encoder().byte(Blocks)
    out.seq(names)(name => { out.string(name); () }).toBytes
  }

  def ask(question: Question): Array[Byte] =
    WireParts
      .checked(new Encoder().byte(Asked), QuestionBytes.encode(new Encoder(), question).toBytes)
      .toBytes

  def push(pushed: PushedFile): Array[Byte] = {
    import pushed.{bytes, file, store}
    val named = WireParts.store(new Encoder(), store).int(file.worker)
    val out = new Encoder(bytes.length + HeaderBytes).byte(File)
    WireParts.checked(out, WireParts.name(named, file.name).toBytes)
    WireParts.checked(out, bytes).toBytes
  }

  /** Answers what `ask` or `push` made. Throws DamagedFileException if the request is anything
    * else.
    *
    * @param come
    *   takes a file
    */
  def answer(request: Array[Byte])(
      blockOf: String => Option[Array[Byte]],
      come: PushedFile => Unit,
      answering: Question => Answer
  ): Array[Byte] = {
    val in = new Decoder(Request, request)
    val out = new Encoder()
    in.byte() match {
      case Blocks =>
        for (name <- in.seq(in.string()).iterator.takeWhile(_ => out.size < BlocksBytes))
          out.option(blockOf(name))(bytes => { out.blob(bytes); () })
      case File => come(fileOf(in))
      case Asked =>
        val question = new Decoder(QuestionName, WireParts.checked(in, QuestionName))
        AnswerBytes.encode(out, answering(QuestionBytes.decode(question)))
      case other => throw new DamagedFileException(Request, None, "1 to 3 at first", s"$other")
    }
    out.toBytes
  }

  private def fileOf(in: Decoder): PushedFile = {
    val named = new Decoder(Request, WireParts.checked(in, Request))
    val store = WireParts.store(named)
    val file = FileName(named.int(), WireParts.name(named))
    PushedFile(store, file, WireParts.checked(in, s"$file, as another executor sent it"))
  }

  /** The blocks of an answer, in the order of the names. Throws DamagedFileException. */
  def blocks(answer: Array[Byte]): Vector[Option[Array[Byte]]] = {
    val in = new Decoder("an answer of another executor with blocks", answer)
    Iterator.continually(in).takeWhile(_.remaining > 0).map(_ => in.option(in.blob())).toVector
  }

  private val Request = "a request of another executor"
  private val QuestionName = "a question of another executor"
  private val HeaderBytes = 256 // about as many as the names take
}
