// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{Compression, Compressions, ExecutorAddress, StoreKey, WorkerId}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.{Hands, Throttle}
import io.megaphone.plan.StepId
import io.megaphone.runtime.{DutyHost, ExecutorAgent, FaultPoints, Orders}
import io.megaphone.state.{ForStep, Registry, ReplicaKey, Stretch}
import io.megaphone.transfer.{
  Answer, BlockName, Coming, Heard, Peers, PushedFile, Question, ReplicaDuty, StandbyKeeper,
  TransferBlocks
}

/** One executor: the shipped agent, and a host made of dice: its way to the other executors, its
  * background threads, its memory.
  */
final class Executor(val name: String, world: World) extends Peers with FaultPoints with DutyHost {
  override val address: ExecutorAddress =
    ExecutorAddress(name, s"h${name.hashCode % world.setup.hosts}", 1)
  // Nobody gives a lease back while another thread would wait for it: there is one thread.
  val registry = new Registry(behindMax = world.setup.behindMax, borrowMs = 0)
  private val clock = new Hands
  val agent = new ExecutorAgent(
    registry,
    this,
    new TransferBlocks(Compressions(Compression.None), partBytes = 100), // a few keys
    this,
    (store, _, _) => recovery(store),
    pullDeadlineMs = 60000, // peers answer at once
    text => world.trace(s"$name WARN $text"),
    new Throttle(clock),
    sliceBytes = 1, // one bin
    clock = clock
  )

  /** The workers that this executor stands by for, and has not run since. */
  val standing: mutable.Set[WorkerId] = mutable.Set.empty
  private val stored = mutable.LinkedHashMap.empty[BlockName, Array[Byte]]
  private val restsThread = new Object
  private var hasHeardWrong = false
  private var hasTasks = false // as far as copies go: they are free if it has none
  private var settled = Map.empty[String, Long] // versions by run, of the newest orders

  /** Whether there is never room for copies, nor for the rest of what is elsewhere. */
  val isFull: Boolean = world.faults.strikes(Fault.ExecutorHasNoRoom)
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
    world.executor(to.id).foreach(world.mail.push(file, _))

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

  override def pulling(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Coming[Array[Byte]] = Coming.now(pull(block, address, deadlineMs))

  /** Others go on while a question or its answer is late. */
  override def ask(question: Question, address: ExecutorAddress, deadlineMs: Long): Heard = {
    val isLate = world.faults.strikes(Fault.AnswerLate, world.mayGoOn)
    if (isLate) world.meanwhile()
    val answer = world.executor(address.id).map { source =>
      world.planted.answer(question, source.agent.answer(question), source)
    }
    if (isLate) world.meanwhile()
    if (world.faults.strikes(Fault.AnswerMissing)) Heard.Nothing
    else {
      val isWrong = world.faults.strikes(Fault.AnswerWrong, answer.exists(_ != Answer.NotYet))
      hasHeardWrong ||= isWrong
      answer.fold(Heard.Nothing)(a => Heard(if (isWrong) wrong(a) else a, bytes = 1))
    }
  }

  /** An answer to another question than was asked. */
  private def wrong(answer: Answer): Answer = answer match {
    case Answer.SubBins(found) if world.dice.chance(0.7) =>
      Answer.SubBins(found.map { case (bin, some) =>
        bin -> some.filter(_ => world.dice.chance(0.5))
      })
    case Answer.Rest(stretch) if world.dice.chance(0.7) =>
      Answer.Rest(stretch.copy(stretch.subBins.filter(_ => world.dice.chance(0.5))))
    case Answer.AllDue(found) if world.dice.chance(0.7) => Answer.AllDue(found.drop(1))
    case Answer.Rest(_) => Answer.SubBins(Vector.empty)
    case _ => Answer.Rest(Stretch(Vector.empty, None))
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

  /** The runs and steps that blocks and replicas here are for. */
  def carried: Iterator[(String, StepId)] =
    stored.keysIterator.map(block => block.key.run -> block.step) ++
      registry.reached.iterator.map(_.replica).collect {
        case ReplicaKey(store, _, ForStep(step, _)) =>
          store.run -> step
      }

  override def at(point: String): Unit =
    if (
      Executor.NeedRoom(point) && (isFull || world.faults.strikes(Fault.ReplicaHasNoRoom)) ||
      point == FaultPoints.RestAsked && isFull
    ) throw new SpillException("no room", null)

  override def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]] = Some(bytes)

  /** The answer to a report arrives. */
  def hear(orders: Orders): Unit = {
    val heard = world.planted.orders(orders)
    val lost = registry.runs.filter(run => world.isLive(run) && !heard.runs.contains(run))
    if (agent.obey(heard)) {
      if (lost.nonEmpty) throw new Violation(s"executor $name drops the memory of live runs $lost")
      settled = heard.runs.view.mapValues(_.settled).toMap
    }
    world.planted.afterOrders(this)
  }

  /** One piece of work of the background threads. */
  def work(): Unit =
    if (world.dice.chance(0.2)) keepStandbys()
    else if (!world.isBusy(restsThread) && world.dice.chance(0.3)) bringRests()
    else if (world.dice.chance(0.3)) { agent.surveys.next(_ => true); () }
    else if (!world.dice.chance(0.6) || !agent.publisher.publishNext()) {
      val all = agent.replicas.duties
      val duties = if (all.isEmpty || world.dice.chance(0.3)) all else Vector(world.dice.pick(all))
      duties.foreach(world.planted.beforeDuty(this, _))
      hasTasks = !hasTasks
      if (hasTasks) agent.throttle.taskBegins() else agent.throttle.taskEnds()
      if (world.dice.chance(0.5)) agent.replicas.work(duties.map(_.key), this)
      else duties.foreach(prepareOnce)
    }

  /** Makes a replica, or just a slice of it, or brings it forward. */
  private def prepareOnce(duty: ReplicaDuty): Unit = {
    try agent.replicas.prepare(duty)
    catch { case e: Exception => failed(Vector(duty.key), e) }
    ends(duty.key)
  }

  /** A slice or a tail for one standby, or all that there is to do for those of a run. Orders may
    * come before: a slice is small, and files are kept for a few versions only.
    */
  def keepStandbys(): Unit = for {
    run <- world.dice.pickOption(world.drivers.filter(_.live.isDefined).map(_.id))
    areWhole = world.dice.chance(0.5)
    if agent.standbys.due(run, areWhole).nonEmpty
    _ = if (world.dice.chance(0.5)) world.mail.report(this)
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
    try {
      if (world.during(restsThread)(agent.rests.bringAll(run))) {
        world.counts = world.counts.copy(completed = world.counts.completed + 1)
        world.mail.wantsToReport(this)
      }
      world.checkRests(this)
    } catch {
      case e: Exception if world.isExpected(e) || !world.isLive(run) => world.trace(s"$name: $e")
      case e: SpillException if isFull => world.trace(s"$name: $e")
      case e: MissingFileException if isOutdated(run) => world.trace(s"$name: $e")
      // What is lacking of an answer is found at its end.
      case e: IllegalStateException if hasHeardWrong => world.trace(s"$name: $e")
    }

  /** Whether it has heard nothing for so long that the state it knows as settled is gone. */
  private def isOutdated(run: String) = settled.get(run).forall(_ < world.oracle.oldest)

  /** Orders may come before each duty. */
  override def begins(key: ReplicaKey): Unit = if (world.dice.chance(0.1)) world.mail.report(this)

  override def ends(key: ReplicaKey): Unit =
    world.trace(s"$name has worked on $key: ${registry.replica(key).map(_.base)}")

  /** The host goes on. Of a run that is over, the files may be another run's by now. */
  override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = cause match {
    case e: Exception if world.isExpected(e) || !keys.forall(k => world.isLive(k.store.run)) =>
      world.trace(s"$name: $e")
    case e: MissingFileException if keys.forall(k => isOutdated(k.store.run)) =>
      world.trace(s"$name: $e")
    case _ => throw cause
  }
}

object Executor {
  private val NeedRoom = Set(FaultPoints.TargetPulling, FaultPoints.StandbyKept)
}
