// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import scala.collection.mutable

/** Who should stand by for workers. */
object Standbys {

  /** The executors that stand by for each worker: on another host than the worker and its other
    * standbys, if there is one; where a standby is, if that executor lives; then the one that has
    * the least state, its own and that which it stands by with, the first by name. Where a standby
    * is whole it stays until enough others are, or as many as there is room for. If there are too
    * few executors, a worker has fewer standbys.
    *
    * @param workers
    *   the executor of each worker
    * @param current
    *   the executors that stand by for a worker now, or have its state
    * @param members
    *   all executors. Those that are to be emptied get no standby, and keep one that is whole
    * @param replicas
    *   how many standbys a worker is to have
    * @param isWhole
    *   whether a worker's standby on an executor has all of its state
    * @param refuses
    *   whether an executor had no room for a worker just now: unless it has all of its state,
    *   nobody waits for it
    * @param bytesOf
    *   how much state a worker has, as far as it is known
    * @param unfit
    *   executors that had no room for a worker: unless they have all of its state now, they stand
    *   by for it only if there is no other
    */
  def assign(
      workers: Vector[String],
      current: Int => Seq[String],
      members: Vector[Member],
      replicas: Int,
      isWhole: (Int, String) => Boolean = (_, _) => false,
      unfit: Int => Set[String] = _ => Set.empty,
      refuses: (Int, String) => Boolean = (_, _) => false,
      bytesOf: Int => Long = _ => 0
  ): Vector[Vector[String]] = {
    val open = Member.open(members).map(_.id)
    val hosts = members.map(m => m.id -> m.host).toMap
    val keepers = open.toSet ++ members.filter(_.state != MemberState.Leaving).map(_.id)
    val weights = mutable.Map.empty[String, Long].withDefaultValue(0)
    // Without knowing how large workers are, they are alike.
    def add(worker: Int, executor: String): Unit = weights(executor) += 1 + bytesOf(worker)
    val now = workers.indices.map { w =>
      current(w).filter(e => keepers(e) && e != workers(w)).distinct
    }
    workers.indices.foreach(w => (workers(w) +: now(w).take(replicas)).foreach(add(w, _)))
    def isUnfit(worker: Int, executor: String) =
      unfit(worker)(executor) && !isWhole(worker, executor)
    def another(worker: Int, have: Vector[String]): Option[String] = {
      val free = open.filterNot(e => e == workers(worker) || have.contains(e))
      val taken = (workers(worker) +: have).flatMap(hosts.get).toSet
      free.minByOption { e =>
        val place = now(worker).indexOf(e)
        (isUnfit(worker, e), taken(hosts(e)), if (place < 0) Int.MaxValue else place, weights(e), e)
      }
    }
    val isOpen = open.toSet

    /** Those that are there, if nothing better could be wished: most of the time. */
    def settled(w: Int): Option[Vector[String]] = {
      val some = now(w).take(replicas).toVector
      val on = (workers(w) +: some).flatMap(hosts.get)
      Option.when(
        some.size == replicas && some.forall(e => isOpen(e) && isWhole(w, e)) &&
          on.distinct.size == replicas + 1
      )(some)
    }
    workers.indices.toVector.map { w =>
      val wanted = settled(w).getOrElse {
        (0 until replicas).foldLeft(Vector.empty[String]) { (have, _) => have ++ another(w, have) }
      }
      wanted.filterNot(now(w).contains).foreach(add(w, _))
      val lacking = wanted.count(e => !isWhole(w, e) && !refuses(w, e))
      wanted ++ now(w).filterNot(wanted.contains).filter(isWhole(w, _)).take(lacking)
    }
  }
}
