// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.format.{ExecutorAddress, StoreId, WorkerId}
import io.megaphone.plan.{Group, RoutingTable, StepId}
import io.megaphone.protocol.Protocol._
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{ReplicaDuty, StandbyDuty}

/** The duties of executors, as they follow from the last decision. */
object Duties {

  /** All replicas that executors must have ready, each with the executor's id. Executors drop the
    * replicas that no duty names.
    *
    * @param addressOf
    *   the address of an executor's blocks, if it is known
    * @param liveBytesOf
    *   about how many bytes of live records a worker has in a store, if it is known
    */
  def apply(
      state: State,
      addressOf: String => Option[ExecutorAddress],
      liveBytesOf: (StoreId, Int) => Option[Long]
  ): Vector[(String, ReplicaDuty)] = for {
    decision <- state.decision.toVector
    announced <- decision.announced
    if announced.mode.isPreparedAhead
    group = state.group(announced.id.group)
    (before, table) = (decision.before(group.id), decision.after(group.id))
    counts = before.binCounts
    executors = decision.batch.executorsOf(group.id)
    needed <- replicas(state.run, announced, decision.batch, group, table)
    executor <- executors.lift(Announced.targetOf(needed.key)).toVector
    store = needed.key.store.id
    source = needed.key.source
    if needed.bins.forall(before.workerOf(_) == source) // else its file of that name lacks some
  } yield executor -> ReplicaDuty(
    needed.key,
    needed.bins,
    table.bins,
    announced.images.get((store, source)),
    decision.batch.idsOf(store).nameOf(decision.batch.number, source),
    before.contentHash,
    executors.lift(source).flatMap(addressOf),
    announced.sources.lift(source).flatMap(addressOf),
    state.progressAt,
    liveBytesOf(store, source).map(_ * needed.bins.size / math.max(1, counts.lift(source).sum))
  )

  /** The standbys that executors are to keep, each with the executor's id: of the version that the
    * batch last planned reads, which is settled. State that no batch of the run has written yet has
    * none. Those come first that are to take their workers over, the lightest worker before all
    * others: an executor that has run none yet gets that one first.
    *
    * @param relocating
    *   by group: the executors that are to take each worker over
    * @param standbys
    *   by group: the executors that stand by for each worker
    * @param liveBytesOf
    *   about how many bytes of live records a worker has in a store, if it is known
    */
  def standbys(
      state: State,
      relocating: Map[Long, Vector[Vector[String]]],
      standbys: Map[Long, Vector[Vector[String]]],
      liveBytesOf: (StoreId, Int) => Option[Long]
  ): Vector[(String, StandbyDuty)] = {
    val (first, others) = (for {
      decision <- state.decision.toVector
      batch = decision.batch
      if batch.number > 0
      group <- state.groups
      (before, after) = (decision.before(group.id), decision.after(group.id))
      (targets, standing) = (relocating.get(group.id), standbys.get(group.id))
      if (targets ++ standing).exists(_.exists(_.nonEmpty))
      staying = Vector.range(0, before.bins).filter(b => before.workerOf(b) == after.workerOf(b))
      binsOf = staying.groupBy(before.workerOf)
      // Also of a worker that the batch does away with: others take its bins from its standby.
      worker <- 0 until before.workers
      target = targets.flatMap(_.lift(worker)).getOrElse(Vector.empty)
      bytes = group.stores.flatMap(liveBytesOf(_, worker)).sum
      chosen = (target ++ standing.flatMap(_.lift(worker)).getOrElse(Vector.empty)).distinct
      if chosen.nonEmpty
      store <- group.stores
      liveBytes <- liveBytesOf(store, worker).toVector
      duty = StandbyDuty(
        WorkerId(store.in(state.run), worker),
        binsOf.getOrElse(worker, Vector.empty),
        before.bins,
        batch.idsOf(store).nameOf(batch.number, worker),
        before.contentHash,
        liveBytes
      )
      executor <- chosen
    } yield (Option.when(target.contains(executor))(bytes), executor -> duty))
      .partition(_._1.isDefined)
    (first.sortBy(_._1) ++ others).map(_._2)
  }

  /** The steps whose blocks, replicas and exports may still be used: the announced ones, those that
    * are sealed for the batch last planned, and those on demand that somebody may ask about.
    */
  def liveSteps(state: State): Set[StepId] = liveSteps(state, takenAt(state))

  /** @param takenAt
    *   the steps on demand that somebody may ask about
    */
  def liveSteps(state: State, takenAt: Map[StepId, Long]): Set[StepId] =
    state.decision.fold(Set.empty[StepId]) { d =>
      (d.sealedSteps ++ d.announced).iterator.map(_.id).toSet ++ takenAt.keySet
    }

  /** The steps on demand that somebody may ask about, each with its batch: that is the version of
    * its sources that it takes.
    *
    * @param isLost
    *   whether a worker of a group has run last on an executor that is gone: it is recovered, whole
    */
  def takenAt(
      state: State,
      isLost: (Long, Int) => Boolean = (_, _) => false
  ): Map[StepId, Long] = (for {
    decision <- state.decision.iterator
    batch = decision.batch.number
    group <- state.groups
    step <- Completion.arriving(state, group.id, batch, isLost)
    since <- state.history.sealedSteps(step.step.planId).get(step.step)
  } yield step.step -> since).toMap

  /** Why a replica for a plan's announced steps cannot be prepared, as its executor said last; None
    * if none keeps failing.
    */
  def heldUpBy(state: State, planId: String): Option[String] = {
    val failing = for {
      (executor, replicas) <- state.failing.iterator
      (key, reason) <- replicas
      step <- state.announced
      if step.id.planId == planId && key.purpose.isLive(Set(step.id))
    } yield (Announced.targetOf(key), executor, reason)
    failing.minOption.map { case (worker, executor, reason) =>
      s"Executor $executor cannot prepare the bins that are to move to worker $worker, and goes " +
        s"on trying: $reason"
    }
  }

  /** The replicas that a step needs: one for each store and route. */
  private[protocol] def replicas(
      run: String,
      announced: Announced,
      batch: Batch,
      group: Group,
      table: RoutingTable
  ): Vector[NeededReplica] = for {
    route <- Route.of(announced.step, table, batch.whereabouts(group.id))
    store <- group.stores
  } yield NeededReplica(
    ReplicaKey.forStep(store.in(run), route.source, route.target, announced.id),
    route.bins
  )
}
