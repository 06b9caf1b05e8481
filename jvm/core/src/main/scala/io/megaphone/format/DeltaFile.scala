// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.OutputStream
import java.util

import scala.collection.mutable

import io.megaphone.errors.{DamagedFileException, NewerFormatException}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.Records

/** The one format that state is kept and transferred in: chunks of frames, a footer, and a trailer
  * that locates the footer.
  *
  * {{{
  * header   magic "MPHD" | format version (1 B) | compression (1 B) | 2 B zero
  * chunks   compressed frames: records, back to back
  * footer   see Footer
  * trailer  footer offset (8 B) | footer length (4 B) | CRC-32C of the footer (4 B)
  *          | format version (4 B) | magic "MPHF"
  * }}}
  *
  * A worker's commit is such a file. A block that another executor pulls is the same, in memory.
  */
object DeltaFile {
  val FormatVersion = 1
  private val HeaderMagic = 0x4448504d // "MPHD", little-endian
  private val TrailerMagic = 0x4648504d // "MPHF"
  val HeaderBytes = 8
  val TrailerBytes = 24

  /** Maximum raw bytes of a chunk that several bins share: the distance that LZ4 looks back. A
    * larger frame has one or more of its own.
    */
  val ChunkBytes: Int = 1 << 16

  /** Maximum raw bytes of a chunk, unless it has a single record that is larger. A larger frame has
    * several chunks, so who writes or reads it needs the memory of a few such pieces.
    */
  val PieceBytes: Int = 32 << 20

  /** Writes one file, frame by frame, to a stream, which it does not close. Threads: one. */
  final class Writer(
      out: OutputStream,
      compression: Compression,
      file: FileName,
      writer: WriterId,
      pieceBytes: Int = PieceBytes
  ) {
    private var offset = HeaderBytes.toLong
    private val written = Vector.newBuilder[Frame]
    private var raw = new Array[Byte](1 << 12) // the chunk that is being filled
    private var rawBytes = 0
    private val filling = mutable.ArrayBuffer.empty[Frame] // its frames, which name no chunk yet
    out.write(
      new Encoder(HeaderBytes)
        .int(HeaderMagic)
        .byte(FormatVersion)
        .byte(compression.id)
        .byte(0)
        .byte(0)
        .toBytes
    )

    /** Bytes written so far, without the chunk that is being filled. */
    def bytes: Long = offset

    /** Adds the frame of `bin`, as raw records. */
    def frame(bin: Int, isImage: Boolean, records: Array[Byte]): Unit =
      frame(bin, isImage, records, records.length)

    /** Adds the frame of `bin`: the first `length` bytes of raw records. */
    def frame(bin: Int, isImage: Boolean, records: Array[Byte], length: Int): Unit =
      if (length <= ChunkBytes)
        add(bin, isImage, length)(System.arraycopy(records, 0, _, _, length))
      else inPieces(bin, isImage)(_(records, length))

    /** Adds the tail that a commit appended to `bin`. */
    def tail(bin: Int, records: Records): Unit =
      if (records.bytes > pieceBytes)
        inPieces(bin, isImage = false)(records.foreachPiece(pieceBytes))
      else add(bin, isImage = false, records.length)(records.copyTo)

    /** Adds the image of `bin`. */
    def image(bin: Int, log: BinLog): Unit =
      if (log.liveBytes > pieceBytes)
        inPieces(bin, isImage = true)(log.foreachImagePiece(pieceBytes))
      else add(bin, isImage = true, log.imageBytes)(log.copyImage)

    private def inPieces(bin: Int, isImage: Boolean)(
        foreachPiece: ((Array[Byte], Int) => Unit) => Unit
    ): Unit = {
      endChunk()
      val pieces = Vector.newBuilder[Chunk]
      foreachPiece((records, length) => pieces += chunk(records, length))
      val all = pieces.result()
      val whole = all.head.copy(more = all.tail)
      written += Frame(bin, isImage, whole, 0, whole.rawBytesOfAll)
    }

    private def add(bin: Int, isImage: Boolean, length: Int)(
        copyTo: (Array[Byte], Int) => Unit
    ): Unit = {
      if (length > ChunkBytes - rawBytes) endChunk()
      if (length > raw.length - rawBytes) {
        val filled = if (rawBytes == 0) Array.emptyByteArray else raw
        raw = null // frees the old array before a large one is made
        raw = util.Arrays.copyOf(filled, math.max(rawBytes + length, ChunkBytes))
      }
      copyTo(raw, rawBytes)
      filling += Frame(bin, isImage, null, rawBytes, length.toLong)
      rawBytes += length
    }

    private def chunk(records: Array[Byte], length: Int): Chunk = {
      val stored = compression.compress(records, length)
      val made = Chunk(file, writer, offset, stored.length, length, Checksum.of(stored))
      out.write(stored)
      offset += stored.length
      made
    }

    private def endChunk(): Unit = if (filling.nonEmpty) {
      val full = chunk(raw, rawBytes)
      filling.foreach(frame => written += frame.copy(chunk = full))
      filling.clear()
      rawBytes = 0
    }

    /** Ends the file with the footer that `make` returns for the frames written, and returns it. */
    def finish(make: Vector[Frame] => Footer): Footer = {
      endChunk()
      val footer = make(written.result())
      val encoder = new Encoder(1024)
      footer.encode(encoder)
      val bytes = encoder.toBytes
      out.write(bytes)
      out.write(
        new Encoder(TrailerBytes)
          .long(offset)
          .int(bytes.length)
          .int(Checksum.of(bytes))
          .int(FormatVersion)
          .int(TrailerMagic)
          .toBytes
      )
      offset += bytes.length + TrailerBytes
      footer
    }
  }

  /** Reads one file from `source`, which it does not close. Throws DamagedFileException, which
    * names the file and what was expected, if the source is not a whole delta file, or its subclass
    * NewerFormatException if the file has a later format version. Threads: one.
    */
  final class Reader(source: FileSource) {
    private val file = source.name

    /** Whether another executor has sent the file. */
    val isPushed: Boolean = source.isPushed
    private val compressionId: Int = {
      if (source.length < HeaderBytes + TrailerBytes)
        fail(None, s"at least ${HeaderBytes + TrailerBytes} bytes", s"${source.length}")
      val in = new Decoder(file, source.read(0, HeaderBytes))
      val magic = in.int()
      if (magic != HeaderMagic) fail(None, "the magic number MPHD", f"0x$magic%08x")
      val version = in.byte()
      if (version > FormatVersion && version == versionAtEnd)
        throw new NewerFormatException(file, FormatVersion, version)
      if (version != FormatVersion) fail(None, s"format version $FormatVersion", version.toString)
      in.byte()
    }

    /** Format version in the trailer. A file of a later version says so at both ends; a file that
      * says so at one end only is damaged.
      */
    private def versionAtEnd: Int = new Decoder(file, source.read(source.length - 8, 4)).int()

    lazy val footer: Footer = {
      val trailer = new Decoder(file, source.read(source.length - TrailerBytes, TrailerBytes))
      val offset = trailer.long()
      val length = trailer.int()
      val checksum = trailer.int()
      val version = trailer.int()
      val magic = trailer.int()
      if (magic != TrailerMagic) fail(None, "the magic number MPHF at the end", f"0x$magic%08x")
      if (version != FormatVersion) fail(None, s"format version $FormatVersion", version.toString)
      if (offset < HeaderBytes || length < 0 || offset + length + TrailerBytes != source.length)
        fail(None, "a footer that ends at the trailer", s"one at $offset of $length bytes")
      val bytes = source.read(offset, length)
      if (Checksum.of(bytes) != checksum)
        fail(None, f"footer checksum 0x$checksum%08x", f"0x${Checksum.of(bytes)}%08x")
      Footer.decode(new Decoder(file, bytes))
    }

    // The last chunk of several frames, and its raw bytes: frames are read in file order.
    private var unpacked: Chunk = _
    private var unpackedBytes: Array[Byte] = _

    /** The records of a frame: whole records in each piece, which is read when it is asked for. */
    def pieces(frame: Frame, compressions: Compressions): Iterator[Array[Byte]] = {
      val chunk = frame.chunk
      if (chunk.more.isEmpty) Iterator.single(records(frame, compressions))
      else {
        checkSpan(frame)
        chunk.pieces.iterator.map(unpack(_, frame.bin, compressions))
      }
    }

    /** The records of a frame that has one piece. */
    def records(frame: Frame, compressions: Compressions): Array[Byte] = {
      val chunk = frame.chunk
      require(chunk.more.isEmpty, s"the frame of bin ${frame.bin} is in several pieces")
      checkSpan(frame)
      if (frame.rawBytes == 0) Array.emptyByteArray
      else if (frame.rawBytes == chunk.rawBytes) unpack(chunk, frame.bin, compressions)
      else {
        if (chunk != unpacked) {
          unpackedBytes = unpack(chunk, frame.bin, compressions)
          unpacked = chunk
        }
        util.Arrays.copyOfRange(unpackedBytes, frame.at, frame.at + frame.rawBytes.toInt)
      }
    }

    private def checkSpan(frame: Frame): Unit = {
      val bytes = frame.chunk.rawBytesOfAll
      if (frame.at < 0 || frame.rawBytes < 0 || frame.at > bytes - frame.rawBytes)
        fail(
          Some(frame.bin),
          s"${frame.rawBytes} bytes of records at ${frame.at}",
          s"a chunk of $bytes bytes"
        )
    }

    private def unpack(chunk: Chunk, bin: Int, compressions: Compressions): Array[Byte] = {
      val compression = compressions(file, compressionId)
      if (
        chunk.offset < HeaderBytes || chunk.storedBytes < 0 ||
        chunk.offset > source.length - TrailerBytes - chunk.storedBytes
      )
        fail(
          Some(bin),
          s"a chunk of ${chunk.storedBytes} bytes at ${chunk.offset}",
          s"a file of ${source.length} bytes"
        )
      val stored = source.read(chunk.offset, chunk.storedBytes)
      val checksum = Checksum.of(stored)
      if (checksum != chunk.checksum)
        fail(Some(bin), f"chunk checksum 0x${chunk.checksum}%08x", f"0x$checksum%08x")
      Compression.unpacked(compression, stored, chunk.rawBytes, file, Some(bin))
    }

    private def fail(bin: Option[Int], expected: String, found: String): Nothing =
      throw new DamagedFileException(file, bin, expected, found)
  }
}
