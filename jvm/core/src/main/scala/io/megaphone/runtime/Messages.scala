// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.{ExecutorAddress, WorkerId}
import io.megaphone.pace.CopyRate
import io.megaphone.plan.StepId
import io.megaphone.state.{ForStep, Reached, ReplicaKey}
import io.megaphone.transfer.{ReplicaDuty, StandbyDuty}

/** A message between an executor and the driver. Losing one costs time, never correctness. */
sealed trait Message extends Serializable

/** An executor's periodic report; the answer is `Orders`.
  *
  * @param replicas
  *   how far each replica on the executor is
  * @param refused
  *   the replicas that had no room when they were last tried, and the reason
  * @param copied
  *   how much was copied for each replica, or looked at for a survey
  * @param besideTasks
  *   by run: bytes of records that were copied in all while the executor ran tasks
  * @param standing
  *   how far each standby is that the executor is to keep
  * @param obeyed
  *   the number of the newest orders that were obeyed before the report was made
  * @param states
  *   how many states of workers it keeps, by run
  * @param noRoom
  *   the workers that it is to stand by for and has no room for
  * @param whole
  *   workers that run on it, all of whose bins are complete since their last commit, each with the
  *   version
  * @param restsHeldUp
  *   workers that run on it with incomplete bins whose rest does not come, each with the reason
  * @param exports
  *   how many exports it keeps, by run
  * @param failing
  *   the replicas that it has failed to prepare some times in a row, and the last reason
  * @param surveyed
  *   what steps on demand are to take from its workers, and is surveyed
  */
final case class Report(
    executor: ExecutorAddress,
    held: Held,
    replicas: Vector[Reached] = Vector.empty,
    refused: Vector[(ReplicaKey, String)] = Vector.empty,
    copied: Vector[Copied] = Vector.empty,
    besideTasks: Map[String, Long] = Map.empty,
    standing: Vector[Standing] = Vector.empty,
    obeyed: Long = 0,
    states: Map[String, Int] = Map.empty,
    noRoom: Vector[WorkerId] = Vector.empty,
    whole: Vector[(WorkerId, Long)] = Vector.empty,
    restsHeldUp: Vector[(WorkerId, String)] = Vector.empty,
    exports: Map[String, Int] = Map.empty,
    failing: Vector[(ReplicaKey, String)] = Vector.empty,
    surveyed: Vector[ReplicaKey] = Vector.empty
) extends Message {

  /** The version that each replica has reached that lacks no bin. */
  def ready: Vector[(ReplicaKey, Long)] =
    for (r <- replicas if r.isWhole) yield r.replica -> r.version
}

/** How far a standby is: the version of its holding, how many bins of the worker it has, and
  * whether these are all.
  */
final case class Standing(worker: WorkerId, version: Long, isWhole: Boolean, bins: Int = 0)

/** How many bytes of records were copied for a replica, at its source or its target: the most that
  * one attempt has come to, so that repeated attempts do not look like progress. Of a step on
  * demand, how many its source has surveyed.
  */
final case class Copied(replica: ReplicaKey, isSource: Boolean, bytes: Long)

/** An executor asks for the configuration of the file systems that a run's checkpoint is on. The
  * answer is a [[FileSettings]].
  */
final case class FileSettingsAsked(run: String) extends Message

/** The configuration of file systems, in the host's own encoding; None if the run is not known. */
final case class FileSettings(bytes: Option[Array[Byte]]) extends Message

/** How much an executor keeps: the states of workers of all runs, the replicas that it has made for
  * steps, and the blocks that it has published. Between plans there are no replicas and no blocks.
  *
  * @param bytes
  *   heap of all states and replicas
  * @param bytesOnDisk
  *   bytes of their pages that lie on its local disk
  * @param budgetBytes
  *   the heap that they may take
  */
final case class Held(
    workers: Int,
    replicas: Int,
    blocks: Int,
    bytes: Long = 0,
    bytesOnDisk: Long = 0,
    budgetBytes: Long = 0
)

/** The complete orders to one executor. It drops everything that they do not name. It ignores
  * orders with an older counter than it has seen.
  *
  * @param runs
  *   the runs that are alive, by Spark's run id
  * @param duties
  *   the replicas that the executor must have ready
  * @param standbys
  *   the standbys that it is to keep
  * @param isDraining
  *   whether the executor is to be emptied
  * @param pushes
  *   the executors that stand by for workers that run on this one: they get the workers' files
  */
final case class Orders(
    counter: Long,
    runs: Map[String, LiveRun],
    duties: Vector[ReplicaDuty],
    standbys: Vector[StandbyDuty] = Vector.empty,
    isDraining: Boolean = false,
    pushes: Map[WorkerId, Vector[ExecutorAddress]] = Map.empty
) extends Message {

  /** Whether blocks and replicas of a step may still be used. */
  def isLive(run: String, step: StepId): Boolean = runs.get(run).exists(_.steps(step))

  def isLive(key: ReplicaKey): Boolean =
    runs.get(key.store.run).exists(run => key.purpose.isLive(run.steps))

  /** The replicas to keep: those of the duties, and those of steps that are sealed, which are no
    * duties any more, and which tasks may still take. A duty that has moved to another executor
    * leaves its replica to be dropped.
    */
  def kept: ReplicaKey => Boolean = {
    val due = duties.iterator.map(_.key).toSet
    key => due(key) || runs.get(key.store.run).exists(run => key.purpose.isLive(run.sealedSteps))
  }

  /** The version of its source that a sealed step on demand takes; None for any other. */
  def takenAt(key: ReplicaKey): Option[Long] = (key.purpose, runs.get(key.store.run)) match {
    case (ForStep(step, _), Some(run)) => run.takenAt.get(step)
    case _ => None
  }
}

object Orders {

  /** The orders for one executor. Draws the counter before it lists the runs: a run that starts in
    * between draws a newer one, so the executor ignores orders that do not know the run.
    *
    * @param counter
    *   draws a number greater than all before it
    * @param runs
    *   lists the runs of the application
    * @param isDraining
    *   whether the executor is to be emptied
    */
  def of(
      counter: () => Long,
      runs: () => Seq[RunOrders],
      isDraining: Boolean = false
  ): Orders = {
    val drawn = counter()
    val all = runs()
    Orders(
      drawn,
      all.map(r => r.run -> r.live).toMap,
      all.iterator.flatMap(_.duties).toVector,
      all.iterator.flatMap(_.standbys).toVector,
      isDraining,
      all.iterator.flatMap(_.pushes).toMap
    )
  }
}

/** One run's part of the orders for an executor. */
final case class RunOrders(
    run: String,
    live: LiveRun,
    duties: Vector[ReplicaDuty],
    standbys: Vector[StandbyDuty] = Vector.empty,
    pushes: Map[WorkerId, Vector[ExecutorAddress]] = Map.empty
)

/** A run that is alive.
  *
  * @param checkpointRoot
  *   root folder of its checkpoint
  * @param settled
  *   the newest version that is settled
  * @param steps
  *   steps whose blocks and replicas may still be used
  * @param takenAt
  *   of those of them that are on demand and sealed: the version that each takes of its sources
  * @param pullDeadlineMs
  *   how long an executor waits for a block that prepares a replica; None for its own deadline
  * @param copyRate
  *   how fast the executor may copy for the run
  * @param sealedSteps
  *   those of the steps that the batch last planned takes
  */
final case class LiveRun(
    checkpointRoot: String,
    settled: Long,
    steps: Set[StepId],
    pullDeadlineMs: Option[Long],
    copyRate: CopyRate = CopyRate.Unlimited,
    takenAt: Map[StepId, Long] = Map.empty,
    sealedSteps: Set[StepId] = Set.empty
)

/** A worker's commit: where the worker ran, and the cost of opening its state.
  *
  * @param keys
  *   number of live keys after the commit
  * @param liveBytes
  *   bytes of the live records after it
  * @param bytes
  *   size of the file that the commit wrote
  * @param busyMs
  *   how long the task used the state, from when it was open to the end of the commit
  * @param sizes
  *   those of the worker's bins; most commits do not tell them (see [[Census]])
  * @param binsIncomplete
  *   how many of the worker's bins are incomplete
  * @param bytesElsewhere
  *   about how many bytes of records are elsewhere of these
  */
final case class Committed(
    worker: WorkerId,
    batch: Long,
    executor: ExecutorAddress,
    keys: Long,
    liveBytes: Long,
    bytes: Long,
    arrivals: Arrivals,
    sizes: Option[BinSizes] = None,
    busyMs: Long = 0,
    binsIncomplete: Int = 0,
    bytesElsewhere: Long = 0
) extends Message
