// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

import scala.collection.mutable

import io.megaphone.checkpoint.planlog.{LogRecord, LogRecordFormat, PlanLogFiles}

/** The records of a plan log in memory, as bytes; it counts what is asked of it. */
class MemoryRecords extends PlanLogFiles {
  private val records = mutable.TreeMap.empty[Long, Array[Byte]]

  /** Calls that listed the folder, records and bytes that were read, and records deleted. */
  var lists, reads, bytesRead, deleted = 0L

  def nextNumber: Long = records.lastOption.fold(0L)(_._1 + 1)

  /** All records that exist, also those that do not count any more. */
  def all: Vector[LogRecord] = records.iterator.map { case (n, b) => decoded(n, b) }.toVector

  /** Loses the newest records: all from a number on. */
  def truncate(next: Long): Unit = { records.filterInPlace((number, _) => number < next); () }

  /** Writes a record, whatever stands at its number. */
  def replace(number: Long, record: LogRecord): Unit =
    records(number) = LogRecordFormat.encode(record)

  override def folder: String = "log"
  override def numbers(): Vector[Long] = { lists += 1; records.keysIterator.toVector }
  override def delete(number: Long): Unit = if (records.remove(number).isDefined) deleted += 1

  override def read(numbers: Vector[Long]): Vector[Option[LogRecord]] = numbers.map { number =>
    records.get(number).map { bytes =>
      reads += 1
      bytesRead += bytes.length
      decoded(number, bytes)
    }
  }

  override def create(number: Long, record: LogRecord): Boolean = {
    val isFree = !records.contains(number)
    if (isFree) replace(number, record)
    isFree
  }

  private def decoded(number: Long, bytes: Array[Byte]) =
    LogRecordFormat.decode(s"log/$number", bytes)
}
