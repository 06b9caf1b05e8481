// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.checkpoint.planlog.{LogRecord, PlanLogFiles}

/** The files of the plan log, as one driver reaches them: it may die before or after an append, or
  * not hear of it.
  */
final class DriverPlanLog(id: String, world: World) extends PlanLogFiles {
  private val records = world.checkpoint.planLog
  private var appended = Long.MaxValue // the number of the last append

  override def folder: String = records.folder
  override def numbers(): Vector[Long] = world.planted.numbers(records, appended)
  override def delete(number: Long): Unit = {
    if (world.faults.strikes(Fault.FileFails)) throw new InjectedFault(s"record $number stays")
    records.delete(number)
  }

  override def create(number: Long, record: LogRecord): Boolean = {
    world.driverMayDie("before the plan log")
    appended = number
    if (world.faults.strikes(Fault.AppendFails)) throw new InjectedFault("nothing was written")
    val isCreated = world.planted.create(records, number, record)
    world.trace(s"$id appends record $number, ${if (isCreated) "done" else "taken"}: $record")
    world.driverMayDie("after the plan log")
    if (isCreated && world.faults.strikes(Fault.AppendUnsure))
      throw new InjectedFault("the connection was lost")
    isCreated
  }

  override def read(numbers: Vector[Long]): Vector[Option[LogRecord]] =
    if (world.faults.strikes(Fault.ReadUnsure)) throw new InjectedFault("the connection is lost")
    else records.read(numbers)
}
