// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.format.{FileName, FileSource}
import io.megaphone.testkit.MemoryFiles

/** The files of one store, some of which are not written, or nobody hears that they are. */
final class SimulatedFiles(folder: String, faults: Faults) extends MemoryFiles(folder) {
  private val swept = mutable.HashSet.empty[String]

  /** Whether a sweep has deleted the file of this whole name. */
  def wasSwept(name: String): Boolean = swept(name)

  /** How many files sweeps have deleted. */
  def sweptCount: Int = swept.size

  override def delete(file: FileName): Unit = {
    super.delete(file)
    swept += nameOf(file)
    ()
  }

  override def open(file: FileName): FileSource =
    if (faults.strikes(Fault.FileUnreadable))
      throw new InjectedFault(s"$file cannot be read now")
    else super.open(file)

  override protected def appear(file: FileName, bytes: Array[Byte]): Unit = {
    if (faults.strikes(Fault.FileFails)) throw new InjectedFault(s"$file was not written")
    super.appear(file, bytes)
    if (faults.strikes(Fault.FileUnsure))
      throw new InjectedFault(s"$file may be written or not")
  }
}
