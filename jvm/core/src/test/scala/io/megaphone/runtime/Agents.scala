// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Compression, Compressions, StateName, StoreId, WorkerId}
import io.megaphone.pace.{Clock, CopyRate, Throttle}
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{Peers, ReplicaDuty, StandbyDuty}

/** An executor's agent, and duties for it. */
trait Agents extends LastTails {
  protected val moving = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)

  protected def agentOf(
      store: Store,
      registry: Registry,
      peers: Peers = NoPeers,
      clock: Clock = Clock.System,
      sliceBytes: Long = 1L << 20,
      warn: String => Unit = _ => ()
  ) = new ExecutorAgent(
    registry,
    peers,
    store.handOver,
    FaultPoints.Off,
    (_, _, read) => new Recovery(store.files, Compressions(Compression.None), check = read),
    0,
    warn,
    new Throttle(clock),
    sliceBytes = sliceBytes
  )

  protected def orders(counter: Long, settled: Long, duties: ReplicaDuty*) =
    Orders(counter, Map("run" -> LiveRun("root", settled, Set(step), None)), duties.toVector)

  /** Beside tasks a byte takes a second. */
  protected val slowly =
    Map("run" -> LiveRun("root", 4, Set(step), None, CopyRate(besideTasks = 1, alone = 0)))

  /** Bin 0 of worker 0 at a version, to be had from files alone. */
  protected def dutyAt(version: Long) = ReplicaDuty(
    moving,
    Vector(0),
    4,
    Some(StateName(version - 4, "")),
    StateName(version, ""),
    before.contentHash,
    None,
    None
  )

  /** All bins of worker 0 at a version. */
  protected def standbyAt(version: Long) = StandbyDuty(
    WorkerId(moving.store, 0),
    before.binsOf(0).toVector,
    before.bins,
    StateName(version, ""),
    before.contentHash,
    0
  )

  /** All bins of worker 0 at a version, for a worker, to be had from files slice by slice: a bin at
    * a time, if slices are small.
    */
  protected def dutyInSlices(version: Long, target: Int = 1): ReplicaDuty = dutyAt(version).copy(
    key = ReplicaKey.forStep(moving.store, 0, target, step),
    bins = before.binsOf(0).toVector,
    image = None,
    liveBytes = Some(200)
  )

  /** A store at a version. */
  protected def writtenTo(version: Long): Store = {
    val store = new Store
    for (v <- 0L until version) batch(store, new Registry, v, 2 * v + 1, before, before, v.toByte)
    store
  }

  protected object NoHost extends DutyHost {
    override def begins(key: ReplicaKey): Unit = ()
    override def ends(key: ReplicaKey): Unit = ()
    override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = throw cause
  }
}
