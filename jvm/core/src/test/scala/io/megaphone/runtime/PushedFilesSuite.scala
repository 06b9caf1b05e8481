// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.MissingFileException
import io.megaphone.format.{FileName, FileSource, StateName, StoreId}
import io.megaphone.testkit.MemoryFiles
import io.megaphone.transfer.{PushedFile, PushedFiles, SentFiles}

class PushedFilesSuite extends AnyFunSuite {
  private val store = StoreId(0, "default").in("run")
  private def name(version: Long, id: String = "id") = FileName(3, StateName(version, id))
  private def pushed(version: Long, bytes: Int) =
    PushedFile(store, name(version), Array.fill(bytes)(version.toByte))
  private def bytesOf(source: FileSource) = source.read(0, source.length.toInt).toSeq

  /** Writes a file in two pieces. Returns what was sent. */
  private def sentOf(
      files: MemoryFiles,
      file: FileName,
      bytes: Int = 10,
      isCancelled: Boolean = false
  ): Seq[(FileName, Seq[Byte])] = {
    val sent = mutable.Buffer.empty[(FileName, Seq[Byte])]
    val out = SentFiles(files)((file, all) => sent += file -> all.toSeq).create(file)
    out.write(7)
    out.write(Array.fill(bytes)(5.toByte), 1, bytes - 1)
    if (isCancelled) out.cancel()
    out.close()
    out.close()
    sent.toSeq
  }

  test("a file is sent as it was written, once it is durable") {
    val files = new MemoryFiles
    val expected = 7.toByte +: Seq.fill(9)(5.toByte)
    assert(sentOf(files, name(1)) == Seq(name(1) -> expected))
    assert(bytesOf(files.open(name(1))) == expected)
    val failing = new MemoryFiles {
      override protected def appear(file: FileName, bytes: Array[Byte]): Unit =
        throw new IllegalStateException("the disk is full")
    }
    var isSent = false
    val out = SentFiles(failing)((_, _) => isSent = true).create(name(1))
    out.write(1)
    intercept[IllegalStateException](out.close())
    assert(!isSent)
  }

  test("files that are given up, large, or of checkpoint format v1 are not sent") {
    val files = new MemoryFiles
    assert(sentOf(files, name(1), isCancelled = true).isEmpty)
    intercept[MissingFileException](files.open(name(1)))
    assert(sentOf(files, name(2), SentFiles.FileBytesMax).size == 1)
    assert(sentOf(files, name(3), SentFiles.FileBytesMax + 1).isEmpty)
    assert(files.open(name(3)).length == SentFiles.FileBytesMax + 1)
    assert(sentOf(files, name(4, StateName.FixedId)).isEmpty)
    assert(files.open(name(4, StateName.FixedId)).length == 10)
  }

  test("a file that has come is read instead of the checkpoint's, by its whole name only") {
    val kept = new PushedFiles(100)
    kept.add(pushed(1, 10))
    val files = kept.over(store, new MemoryFiles)
    assert(files.open(name(1)).isPushed && bytesOf(files.open(name(1))) == Seq.fill(10)(1.toByte))
    intercept[MissingFileException](files.open(name(1, "other")))
    intercept[MissingFileException](files.open(name(2)))
    val otherRun = kept.over(StoreId(0, "default").in("other"), new MemoryFiles)
    intercept[MissingFileException](otherRun.open(name(1)))
    val written = new MemoryFiles
    kept.over(store, written).create(name(2)).close()
    assert(!kept.over(store, written).open(name(2)).isPushed)
  }

  test("what has no room is dropped, and what is not wanted any more makes room") {
    val kept = new PushedFiles(100)
    def has(version: Long) =
      try kept.over(store, new MemoryFiles).open(name(version)).length > 0
      catch { case _: MissingFileException => false }
    kept.add(pushed(1, 60))
    kept.add(pushed(1, 60)) // twice
    kept.add(pushed(2, 41))
    assert(has(1) && !has(2) && kept.heldBytes == 60)
    kept.add(pushed(3, 40))
    assert(has(3) && kept.heldBytes == 100)
    kept.keep((_, file) => file.name.version > 1)
    assert(!has(1) && has(3) && kept.heldBytes == 40)
    kept.keep((_, _) => false)
    assert(kept.heldBytes == 0)
  }
}
