// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Compression, Compressions, ExecutorAddress, StoreKey, WorkerId}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.{Clock, Throttle}
import io.megaphone.runtime.{DutyHost, ExecutorAgent, FaultPoints, Orders}
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{
  Answer, BlockName, Heard, Peers, PushedFile, Question, StandbyKeeper, TransferBlocks
}

/** One executor: the shipped agent, and a host made of dice: its way to the other executors, its
  * background threads, its memory.
  */
final class Executor(val name: String, world: World) extends Peers with FaultPoints with DutyHost {
  override val address: ExecutorAddress =
    ExecutorAddress(name, s"h${name.hashCode % world.setup.hosts}", 1)
  // Nobody gives a lease back while another thread would wait for it: there is one thread.
  val registry = new Registry(behindMax = world.setup.behindMax, borrowMs = 0)
  val agent = new ExecutorAgent(
    registry,
    this,
    new TransferBlocks(Compressions(Compression.None), partBytes = 100), // a few keys
    this,
    (store, _, _) => recovery(store),
    pullDeadlineMs = 60000, // peers answer at once
    text => world.trace(s"$name WARN $text"),
    new Throttle(Executor.Impatient),
    sliceBytes = 1, // one bin
    clock = Executor.Impatient
  )

  /** The workers that this executor stands by for, and has not run since. */
  val standing: mutable.Set[WorkerId] = mutable.Set.empty
  private val stored = mutable.LinkedHashMap.empty[BlockName, Array[Byte]]
  var isAlive = true

  override def publish(block: BlockName, bytes: Array[Byte]): Unit = {
    world.checkTravels(block)
    if (world.faults.strikes(Fault.BlockNotPut)) throw new InjectedFault(s"$block was not put")
    stored.getOrElseUpdate(block, bytes)
    ()
  }

  /** Reads a store's files: those that were sent here, and those of the checkpoint. */
  def recovery(store: StoreKey): Recovery =
    world.planted.recovery(agent.pushed.over(store, world.checkpoint.files(store.id)))

  override def push(file: PushedFile, to: ExecutorAddress): Unit =
    world.executor(to.id).foreach(world.push(file, _))

  override def remove(blocks: Seq[BlockName]): Unit = stored --= blocks
  override def keep(isWanted: BlockName => Boolean): Unit =
    stored.filterInPlace((block, _) => isWanted(block))
  override def publishedCount: Int = stored.size

  override def pull(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Option[Array[Byte]] = {
    val found = world.executor(address.id).flatMap(_.blockFor(block))
    if (world.faults.strikes(Fault.BlockMissing, found.isDefined)) None
    else {
      val isDamaged = world.faults.strikes(Fault.BlockDamaged, found.exists(_.length > 0))
      (if (isDamaged) found.map(damaged) else found).orElse(world.planted.missingBlock(block))
    }
  }

  override def ask(question: Question, address: ExecutorAddress, deadlineMs: Long): Heard =
    if (world.faults.strikes(Fault.AnswerMissing)) Heard.Nothing
    else
      world.executor(address.id).map(_.agent.answering(question)) match {
        case None | Some(Answer.NotYet) =>
          Heard.Nothing // the time is up: nothing goes on meanwhile
        case Some(answer) => Heard(world.planted.answer(question, answer), bytes = 1)
      }

  private def blockFor(block: BlockName): Option[Array[Byte]] =
    world.planted.otherBlock(block, stored).orElse(stored.get(block))

  private def damaged(bytes: Array[Byte]): Array[Byte] =
    if (world.dice.chance(0.3)) bytes.take(world.dice.below(bytes.length))
    else {
      val b = bytes.clone()
      val at = world.dice.below(b.length)
      b(at) = (b(at) ^ (1 << world.dice.below(8))).toByte
      b
    }

  override def at(point: String): Unit =
    if (Executor.NeedRoom(point) && world.faults.strikes(Fault.ReplicaHasNoRoom))
      throw new SpillException("no room", null)

  override def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]] = Some(bytes)

  /** The answer to a report arrives. */
  def hear(orders: Orders): Unit = {
    val heard = world.planted.orders(orders)
    val lost = registry.runs.filter(run => world.isLive(run) && !heard.runs.contains(run))
    if (agent.obey(heard) && lost.nonEmpty)
      throw new Violation(s"executor $name drops the memory of live runs $lost")
  }

  /** One piece of work of the background threads. */
  def work(): Unit =
    if (world.dice.chance(0.2)) keepStandbys()
    else if (world.dice.chance(0.3)) bringRests()
    else if (world.dice.chance(0.3)) { agent.surveys.next(_ => true); () }
    else if (!world.dice.chance(0.6) || !agent.publisher.publishNext()) {
      val all = agent.duties
      val duties = if (all.isEmpty || world.dice.chance(0.3)) all else Vector(world.dice.pick(all))
      duties.foreach(world.planted.beforeDuty(this, _))
      agent.work(duties.map(_.key), this)
      ()
    }

  /** A slice or a tail for one standby, or all that there is to do for those of a run. Orders may
    * come before: a slice is small, and files are kept for a few versions only.
    */
  private def keepStandbys(): Unit = for {
    run <- world.dice.pickOption(world.drivers.filter(_.live.isDefined).map(_.id))
    areWhole = world.dice.chance(0.5)
    if agent.standbys.due(run, areWhole).nonEmpty
    _ = if (world.dice.chance(0.5)) world.report(this)
    duty <- world.dice.pickOption(agent.standbys.due(run, areWhole))
  } {
    if (world.dice.chance(0.3)) agent.standbys.keepAll(run, areWhole)
    else agent.standbys.keepOne(duty)
    for (holding <- registry.holding(duty.worker)) {
      world.planted.afterStandby(duty, holding)
      world.trace(s"$name stands by for ${duty.worker}: ${holding.base}, ${holding.bins.size} bins")
      if (StandbyKeeper.isWhole(holding, duty)) standing += duty.worker
    }
  }

  /** The rest of what steps on demand have left elsewhere. */
  private def bringRests(): Unit = for {
    run <- world.dice.pickOption(world.drivers.filter(_.live.isDefined).map(_.id))
    if agent.rests.dueRuns(run)
  }
    try if (agent.rests.bringAll(run)) world.wantsToReport(this)
    catch {
      case e: Exception if world.isExpected(e) || !world.isLive(run) => world.trace(s"$name: $e")
    }

  /** Orders may come before each duty. */
  override def begins(key: ReplicaKey): Unit = if (world.dice.chance(0.1)) world.report(this)

  override def ends(key: ReplicaKey): Unit =
    world.trace(s"$name has worked on $key: ${registry.replica(key).map(_.base)}")

  /** The host goes on. Of a run that is over, the files may be another run's by now. */
  override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = cause match {
    case e: Exception if world.isExpected(e) || !keys.forall(k => world.isLive(k.store.run)) =>
      world.trace(s"$name: $e")
    case _ => throw cause
  }
}

object Executor {
  private val NeedRoom = Set(FaultPoints.TargetPulling, FaultPoints.StandbyKept)

  /** A clock whose time passes when someone waits, so that nobody does. */
  private object Impatient extends Clock {
    private val passed = new AtomicLong()
    override def nanoTime: Long = passed.get
    override def waitOn(monitor: Object, nanos: Long): Unit = { passed.addAndGet(nanos); () }
  }
}
