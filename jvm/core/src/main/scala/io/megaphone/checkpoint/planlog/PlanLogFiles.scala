// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

/** The files of a plan log, one per record, named by its number. They are never overwritten.
  *
  * Threads: any.
  */
trait PlanLogFiles {

  /** Where they are, for messages. */
  def folder: String

  /** The numbers of the records that exist, in any order. */
  def numbers(): Vector[Long]

  /** The records of these numbers, read side by side, in this order; None for one that does not
    * exist. Throws DamagedFileException, or if it is not known what a file has.
    */
  def read(numbers: Vector[Long]): Vector[Option[LogRecord]]

  /** Creates a record, atomically. Returns false, and changes nothing, if the number is taken.
    * Throws if it is not known whether the record was created.
    */
  def create(number: Long, record: LogRecord): Boolean

  /** Deletes a record; nothing happens if it does not exist. */
  def delete(number: Long): Unit
}
