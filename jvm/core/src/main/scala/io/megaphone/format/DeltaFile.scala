// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.OutputStream

/** The one format that state is kept and shipped in: frames, then a footer, then a trailer that finds it.
  *
  * {{{
  * header   magic "MPHD" | format version (1 B) | compression (1 B) | 2 B zero
  * frames   compressed records, back to back
  * footer   see Footer
  * trailer  footer offset (8 B) | footer length (4 B) | CRC-32C of the footer (4 B) | format version (4 B) | magic "MPHF"
  * }}}
  *
  * A worker's commit is such a file; a block that a peer pulls is one too, in memory.
  */
object DeltaFile {
  val FormatVersion = 1
  private val HeaderMagic = 0x4448504d // "MPHD", little-endian
  private val TrailerMagic = 0x4648504d // "MPHF"
  val HeaderBytes = 8
  val TrailerBytes = 24

  /** Writes one file, frame by frame, to a plain stream, which it does not close. One thread. */
  final class Writer(out: OutputStream, compression: Compression) {
    private var offset = HeaderBytes.toLong
    private val written = Vector.newBuilder[Frame]
    out.write(new Encoder(HeaderBytes).int(HeaderMagic).byte(FormatVersion).byte(compression.id).byte(0).byte(0).toBytes)

    /** Bytes written so far. */
    def bytes: Long = offset

    /** Adds what the file has of `bin`: raw records. */
    def frame(bin: Int, isImage: Boolean, records: Array[Byte]): Frame = stored(bin, isImage, compression.compress(records), records.length)

    /** Adds a frame as it lies in another file of the same compression. */
    def stored(bin: Int, isImage: Boolean, bytes: Array[Byte], rawBytes: Int): Frame = {
      val frame = Frame(bin, isImage, offset, bytes.length, rawBytes, Checksum.of(bytes))
      out.write(bytes)
      offset += bytes.length
      written += frame
      frame
    }

    /** Ends the file with the footer that `make` gives for the frames written. */
    def finish(make: Vector[Frame] => Footer): Footer = {
      val footer = make(written.result())
      val encoder = new Encoder(1024)
      footer.encode(encoder)
      val bytes = encoder.toBytes
      out.write(bytes)
      out.write(new Encoder(TrailerBytes).long(offset).int(bytes.length).int(Checksum.of(bytes)).int(FormatVersion).int(TrailerMagic).toBytes)
      offset += bytes.length + TrailerBytes
      footer
    }
  }

  /** Reads one file from `source`, which it does not close. Throws DamagedFileException, with the file and what was expected, for anything that is not a
    * whole file of ours. Any thread, if the source allows it.
    */
  final class Reader(source: FileSource) {
    private val file = source.name
    private val compressionId: Int = {
      if (source.length < HeaderBytes + TrailerBytes) fail(None, s"at least ${HeaderBytes + TrailerBytes} bytes", s"${source.length}")
      val in = new Decoder(file, source.read(0, HeaderBytes))
      val magic = in.int()
      if (magic != HeaderMagic) fail(None, "the magic number MPHD", f"0x$magic%08x")
      val version = in.byte()
      if (version != FormatVersion) fail(None, s"format version $FormatVersion", version.toString)
      in.byte()
    }

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
      if (Checksum.of(bytes) != checksum) fail(None, f"footer checksum 0x$checksum%08x", f"0x${Checksum.of(bytes)}%08x")
      Footer.decode(new Decoder(file, bytes))
    }

    /** The stored bytes of a frame, checked. */
    def stored(frame: Frame): Array[Byte] = {
      if (frame.offset < HeaderBytes || frame.offset > source.length - TrailerBytes - frame.storedBytes)
        fail(Some(frame.bin), s"a frame of ${frame.storedBytes} bytes at ${frame.offset}", s"a file of ${source.length} bytes")
      val bytes = source.read(frame.offset, frame.storedBytes)
      val checksum = Checksum.of(bytes)
      if (checksum != frame.checksum) fail(Some(frame.bin), f"frame checksum 0x${frame.checksum}%08x", f"0x$checksum%08x")
      bytes
    }

    /** The records of a frame. */
    def records(frame: Frame, compressions: Compressions): Array[Byte] = {
      val compression = compressions(file, compressionId)
      val bytes = stored(frame)
      val raw =
        try compression.decompress(bytes, frame.rawBytes)
        catch { case e: Exception => fail(Some(frame.bin), s"${frame.rawBytes} bytes of records", s"bytes that do not decompress ($e)") }
      if (raw.length != frame.rawBytes) fail(Some(frame.bin), s"${frame.rawBytes} bytes of records", s"${raw.length}")
      raw
    }

    private def fail(bin: Option[Int], expected: String, found: String): Nothing = throw new DamagedFileException(file, bin, expected, found)
  }
}

/** Bytes that can be read from anywhere in them: a file, or a block in memory. */
trait FileSource extends AutoCloseable {

  /** For messages. */
  def name: String
  def length: Long

  /** Exactly `length` bytes from `position`. Throws an IOException where they cannot be had. */
  def read(position: Long, length: Int): Array[Byte]
}

/** A block in memory. */
final class BytesSource(val name: String, bytes: Array[Byte]) extends FileSource {
  def length: Long = bytes.length
  def read(position: Long, count: Int): Array[Byte] = {
    if (position < 0 || count < 0 || position + count > bytes.length)
      throw new DamagedFileException(name, None, s"$count bytes at $position", s"${bytes.length} bytes in all")
    java.util.Arrays.copyOfRange(bytes, position.toInt, position.toInt + count)
  }
  def close(): Unit = ()
}
