// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{Chain, Chunk, FileName, Footer, Frame, StateName, WriterId}
import io.megaphone.log.BinLog

class DepartedBinsSuite extends AnyFunSuite {
  test("a bin that left longer ago than its new worker has it is no one's any more") {
    val bin = new DepartedBins
    def left(version: Long) = {
      val file = FileName(0, StateName(version, ""))
      val chunk = Chunk(file, WriterId(0, 0), offset = 8, storedBytes = 1, rawBytes = 1, 0)
      LoadedBin(3, new BinLog, Chain(Seq(Frame(3, isImage = true, chunk, 0, 1))))
    }
    bin.add(left(5), 5)
    assert(bin.take(3, left(4).chain).isEmpty)
    bin.dropBefore(5 + Footer.PreviousMax)
    assert(bin.heapBytes > 0)
    bin.dropBefore(6 + Footer.PreviousMax)
    assert(bin.heapBytes == 0 && bin.take(3, left(5).chain).isEmpty)
    bin.add(left(5), 5)
    assert(bin.take(3, left(5).chain).isDefined && bin.take(3, left(5).chain).isEmpty)
  }
}
