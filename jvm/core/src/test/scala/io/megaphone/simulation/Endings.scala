// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.runtime.Releases

/** Ends executors that were to be emptied: as the user does, and as the product does, whose host is
  * Spark, as far as it gives an executor no more tasks, and ends it. Nothing of what such an
  * executor has may be missed, unless its time is up.
  */
final class Endings(world: World) extends Releases.Host {
  private val releases = new Releases(world.drains, this)

  /** The user ends the executors that may go, but those that the product is to end. */
  def byUser(): Unit = for {
    executor <- world.executors.toVector
    if world.look(executor) && !world.isToEnd(executor) && !hasTasks(executor)
  } lose(executor)

  /** The product takes each of the others a step further. */
  def byProduct(): Unit = {
    world.executors.foreach(world.look(_)) // what it says of them is judged
    releases.tick(world.has)
  }

  override def needOf(executor: String): Option[String] =
    Option.unless(world.executors.exists(e => e.name != executor && world.getsTasks(e)))(
      "It is the last one that gets tasks."
    )

  override def cordon(executor: String): Unit = world.executor(executor).foreach { one =>
    world.trace(s"$executor gets no more tasks")
    if (hasTasks(one)) world.counts = world.counts.copy(cordoned = world.counts.cordoned + 1)
    judge(one)
    world.drivers.foreach(_.clusterChanged())
  }

  override def useOf(executor: String): Option[String] =
    world.executor(executor).filter(hasTasks).map(_ => "A task runs there.")

  override def end(executor: String): Boolean = {
    world.executor(executor).foreach { one =>
      judge(one)
      lose(one)
    }
    true
  }

  private def hasTasks(executor: Executor) = world.drivers.exists(_.tasks.runOn(executor))

  private def lose(executor: Executor): Unit = {
    world.counts = world.counts.copy(released = world.counts.released + 1)
    world.lose(executor, isCutOff = false)
  }

  /** What is thrown here the product would catch. */
  private def judge(executor: Executor): Unit = if (!world.drains.overdue(executor.name))
    try world.mayGo.checkStrayed(executor)
    catch { case e: Violation => world.violation = world.violation.orElse(Some(e)) }
}
