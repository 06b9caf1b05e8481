// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.placement.Seat
import io.megaphone.plan.Group

/** Where a run's workers are wanted, and what Spark has been told of it.
  *
  * Threads: one at a time; `all` and `of` may be called by any thread at any time.
  */
private[runtime] final class Wishes(observed: Observed) {
  private val pinned = mutable.Map.empty[(Long, Int), String] // by operator and worker
  @volatile private var wished = Map.empty[Long, Vector[String]]

  /** By group: the executor that is wished for each worker. */
  def all: Map[Long, Vector[String]] = wished

  /** The executor that is wished for each worker of a group. */
  def of(group: Long): Vector[String] = wished.getOrElse(group, Vector.empty)

  /** The executor that is wished for a worker, if one is. */
  def of(seat: Seat): Option[String] = of(seat.group).lift(seat.worker)

  def wish(group: Long, executors: Vector[String]): Unit = wished = wished.updated(group, executors)

  /** Executors are gone: who is wished there again is to be told to Spark again. */
  def forget(executors: Vector[String]): Unit = {
    pinned.filterInPlace((_, executor) => !executors.contains(executor))
    ()
  }

  /** The executor that Spark was told last for a worker. */
  def sentTo(seat: Seat): Option[String] = pinned.get((seat.group, seat.worker))

  /** Pins for those of a group's workers that are not known to run where they are wanted. */
  def takePins(group: Group, workers: Int): Vector[Pin] = for {
    (executor, worker) <- of(group.id).zipWithIndex.take(workers)
    operator <- group.operators
    key = (operator.id, worker)
    isElsewhere = observed.executorOf(operator.id, worker).exists(_ != executor)
    if !pinned.get(key).contains(executor) || isElsewhere
    address <- observed.cluster.get(executor)
  } yield { pinned(key) = executor; Pin(operator.id, operator.stores, worker, address) }
}
