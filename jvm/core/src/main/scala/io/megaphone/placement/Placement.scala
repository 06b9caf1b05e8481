// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import scala.collection.mutable

/** Where workers should run: sticky, and spread evenly. */
object Placement {

  /** The executor of each of `workers` workers: where it is, if that executor lives; else one that
    * has its state; else the one with the fewest workers, the first by name. Empty where there are
    * no executors.
    *
    * @param stateOn
    *   executors that have a worker's state, all equally new; the one with the fewest workers is
    *   taken
    */
  def assign(
      workers: Int,
      current: Int => Option[String],
      executors: Seq[String],
      stateOn: Int => Seq[String] = _ => Nil
  ): Vector[String] =
    if (executors.isEmpty) Vector.empty
    else {
      val kept = Vector.tabulate(workers)(w => current(w).filter(executors.contains))
      val counts = mutable.Map.from(executors.map(_ -> 0))
      def take(among: Seq[String]): String = {
        val least = among.minBy(e => (counts(e), e))
        counts(least) += 1
        least
      }
      kept.flatten.foreach(e => counts(e) += 1)
      val withState = kept.zipWithIndex.map { case (place, worker) =>
        place.orElse {
          val known = stateOn(worker).filter(executors.contains)
          Option.when(known.nonEmpty)(take(known))
        }
      }
      withState.map(_.getOrElse(take(executors)))
    }

  /** The executors that stand by for each worker: on another host than the worker and its other
    * standbys, if there is one; where a standby is, if that executor lives; then the one that has
    * the fewest workers and standbys, the first by name. Where a standby is whole it stays until
    * enough others are. If there are too few executors, a worker has fewer standbys.
    *
    * @param workers
    *   the executor of each worker
    * @param current
    *   the executors that stand by for a worker now, or have its state
    * @param hosts
    *   the host of each executor that may stand by
    * @param replicas
    *   how many standbys a worker is to have
    * @param isWhole
    *   whether a worker's standby on an executor has all of its state
    */
  def standbys(
      workers: Vector[String],
      current: Int => Seq[String],
      hosts: Map[String, String],
      replicas: Int,
      isWhole: (Int, String) => Boolean = (_, _) => false
  ): Vector[Vector[String]] = {
    val counts = mutable.Map.empty[String, Int].withDefaultValue(0)
    val now = workers.indices.map { w =>
      current(w).filter(e => hosts.contains(e) && e != workers(w)).distinct
    }
    (workers ++ now.flatMap(_.take(replicas))).foreach(e => counts(e) += 1)
    def another(worker: Int, have: Vector[String]): Option[String] = {
      val free =
        hosts.keysIterator.filterNot(e => e == workers(worker) || have.contains(e)).toVector
      val taken = (workers(worker) +: have).flatMap(hosts.get).toSet
      free.minByOption { e =>
        val place = now(worker).indexOf(e)
        (taken(hosts(e)), if (place < 0) Int.MaxValue else place, counts(e), e)
      }
    }
    workers.indices.toVector.map { w =>
      val wanted = (0 until replicas).foldLeft(Vector.empty[String]) { (have, _) =>
        have ++ another(w, have)
      }
      wanted.filterNot(now(w).contains).foreach(e => counts(e) += 1)
      val lacking = wanted.size - wanted.count(isWhole(w, _))
      wanted ++ now(w).filterNot(wanted.contains).filter(isWhole(w, _)).take(lacking)
    }
  }
}
