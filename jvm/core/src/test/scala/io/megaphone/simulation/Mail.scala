// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.runtime.{Committed, Orders, Report}
import io.megaphone.transfer.PushedFile

/** The messages between drivers and executors: each comes at once, late, twice or never. */
final class Mail(world: World) {
  import world.{dice, drivers, faults}

  private val reporting = mutable.LinkedHashSet.empty[Executor] // a task has brought them news
  private val lateReports = mutable.ArrayBuffer.empty[Sent]
  private val lateOrders = mutable.ArrayBuffer.empty[(Executor, Orders)]
  private val lateCommits = mutable.ArrayBuffer.empty[(TaskAttempt, Committed)]
  private val lateFiles = mutable.ArrayBuffer.empty[(Executor, PushedFile)]
  private val heard = mutable.HashMap.empty[String, Report]

  /** The report of an executor that came last. */
  def lastReport(executor: String): Option[Report] = heard.get(executor)

  /** An executor will report soon. */
  def wantsToReport(executor: Executor): Unit = reporting += executor

  /** The executor that will report next. */
  def nextToReport: Option[Executor] = reporting.headOption

  /** An executor is gone. What it has sent may still come. */
  def forget(executor: Executor): Unit = reporting -= executor

  /** An executor reports, and gets its orders: at once, late or never. */
  def report(executor: Executor): Unit = if (!faults.strikes(Fault.MessageLost)) {
    reporting -= executor
    val report = world.planted.report(executor.agent.report, executor)
    val sent = Sent(executor, report, world.mayGo.reports(executor, report))
    if (faults.strikes(Fault.ReportLate)) lateReports += sent else hear(sent)
  }

  private def hear(sent: Sent): Unit = {
    val Sent(executor, report, isHeard) = sent
    heard(executor.name) = report
    isHeard()
    drivers.filterNot(_.isPaused).flatMap(_.live).foreach(_.reported(report))
    def runs = drivers.toVector.flatMap(_.live).flatMap(_.ordersFor(executor.name))
    val orders =
      Orders.of(() => world.nextNumber(), () => runs, world.drains.open(executor.name))
    if (faults.strikes(Fault.MessageLate)) lateOrders += (executor -> orders)
    else executor.hear(orders)
    world.look(executor)
  }

  /** A task tells its driver of a commit: at once, late, twice or never. */
  def tell(by: TaskAttempt, committed: Committed): Unit =
    if (!faults.strikes(Fault.MessageLost)) {
      if (faults.strikes(Fault.MessageLate)) lateCommits += (by -> committed)
      else {
        by.stage.driver.live.foreach(_.committed(committed))
        // What another attempt than the newest has to tell may be ignored, and so may what is late.
        if (!by.isZombie) world.mayGo.told(by)
      }
      if (faults.strikes(Fault.MessageTwice)) lateCommits += (by -> committed)
    }

  /** A file is on its way to an executor: it comes at once, late, twice or never. */
  def push(file: PushedFile, to: Executor): Unit = if (!faults.strikes(Fault.MessageLost)) {
    if (faults.strikes(Fault.MessageLate)) lateFiles += (to -> file) else arrive(file, to)
    if (faults.strikes(Fault.MessageTwice)) lateFiles += (to -> file)
  }

  private def arrive(file: PushedFile, at: Executor): Unit = {
    at.agent.pushed.add(file)
    world.planted.afterPush(at, file)
  }

  /** One message of each kind that is late arrives. */
  def deliverLate(): Unit = {
    takeOne(lateFiles).foreach { case (to, file) => arrive(file, to) }
    takeOne(lateReports).foreach(hear(_))
    takeOne(lateOrders).foreach { case (to, orders) => to.hear(orders) }
    takeOne(lateCommits).foreach { case (by, committed) =>
      by.stage.driver.live.foreach(_.committed(committed))
    }
  }

  /** All messages that are late arrive. */
  def deliverAll(): Unit =
    while (Seq(lateFiles, lateReports, lateOrders, lateCommits).exists(_.nonEmpty)) deliverLate()

  private def takeOne[A](late: mutable.ArrayBuffer[A]): Option[A] =
    Option.when(late.nonEmpty)(late.remove(dice.below(late.size)))
}

/** A report on its way.
  *
  * @param isHeard
  *   to be called once it has come
  */
private final case class Sent(executor: Executor, report: Report, isHeard: () => Unit)
