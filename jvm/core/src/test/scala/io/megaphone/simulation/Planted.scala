// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable
import scala.util.Try

import io.megaphone.checkpoint.{CatchUp, Recovery, StateFiles, Sweep}
import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.format.{
  Chain, Compression, Compressions, FileName, Footer, StateName, StoreId, StoreKey, VersionIds,
  WorkerId, WriterId
}
import io.megaphone.log.BinLog
import io.megaphone.protocol.{Protocol, Route, Whereabouts}
import io.megaphone.runtime.{Assignment, Drain, Orders, Report, SweepOrder, Tables, WorkerTask}
import io.megaphone.state.{
  Attempt, Holding, LoadedBin, Registry, Remote, Replica, ReplicaKey, SubBin
}
import io.megaphone.transfer.{
  Answer, Answering, BlockKind, BlockName, PushedFile, Question, ReplicaDuty, StandbyDuty,
  TransferBlocks
}

/** The places where the simulated query does wrong when a bug is planted. With none they do
  * nothing.
  */
final class Planted(world: World, bug: Option[Bug]) {
  private val setup = world.setup

  def is(b: Bug): Boolean = bug.contains(b)

  /** The tables that a task's store goes by. */
  def tables(stage: Stage, store: StoreId): Tables = {
    val isStale = is(Bug.StaleTables) || is(Bug.GroupSplit) && store.operator != stage.group
    if (isStale) stage.tables.copy(after = stage.tables.before) else stage.tables
  }

  /** What a task's store goes by in addition. */
  def assignment(executor: Executor, stage: Stage, store: StoreId, worker: Int): Assignment =
    if (is(Bug.WholeByMemory)) {
      val here = executor.registry.holding(WorkerId(store.in(stage.driver.id), worker))
      def isWhole(bin: Int) =
        here.exists(own => own.has(bin) && own.stateOf(bin).elsewhere.isEmpty)
      val assignment = stage.assignment
      assignment.copy(incomplete = assignment.incomplete.filterNot(isWhole))
    } else if (!is(Bug.PublishesToItself)) stage.assignment
    else {
      val steps = stage.plan.decision.announced.map(a => a.id -> a.step).toMap
      val outgoing = stage.assignment.outgoing.map(o =>
        o.copy(routes = Route.of(steps(o.step), stage.tables.after, Whereabouts(Vector.empty)))
      )
      stage.assignment.copy(outgoing = outgoing)
    }

  /** Whether a batch that Spark replays is taken for this run's own. */
  def isOwnReplay(newestOffsetAtStart: Long, batch: Long): Boolean =
    is(Bug.OffsetLogSeenEarly) && newestOffsetAtStart < batch

  def recovery(files: StateFiles): Recovery = new Recovery(files, Compressions(Compression.None)) {
    override protected def checkTable(footer: Footer, tableHash: Long): Unit =
      if (!is(Bug.PlanLogTrusted)) super.checkTable(footer, tableHash)
    override protected def checkHasNotLeft(footers: Vector[Footer], bin: Int): Unit =
      if (!is(Bug.PlanLogTrusted)) super.checkHasNotLeft(footers, bin)
  }

  def attemptId(task: TaskAttempt): Long =
    if (is(Bug.ZombieShares)) -1000L * (task.stage.batch + 1) - task.worker - 1 else task.number
  def writer(own: WriterId): WriterId = if (is(Bug.WritersAlike)) WriterId(0, 0) else own

  def report(report: Report, of: Executor): Report = bug match {
    case Some(Bug.RelocatedEarly) =>
      report.copy(standing = report.standing.map(_.copy(isWhole = true)))
    case Some(Bug.MoveOfIncomplete) =>
      report.copy(whole = of.registry.workers(_.areIncomplete).map(_ -> world.oracle.settled))
    case Some(Bug.NoRoomUnsaid) =>
      val bins = world.nextNumber().toInt
      report.copy(noRoom = Vector.empty, standing = report.standing.map(_.copy(bins = bins)))
    case _ => report
  }

  /** What an executor has, as the driver knows it. */
  def has(has: Drain.OfExecutor): Drain.OfExecutor = {
    def of(change: Drain.OfQuery => Drain.OfQuery) = has.copy(queries = has.queries.map(change))
    bug match {
      case Some(Bug.GoesThoughPlaced) => of(_.copy(workers = 0))
      case Some(Bug.GoesWithOnlyCopy) => of(_.copy(areElsewhere = true))
      case Some(Bug.GoesWithState) => of(_.copy(states = 0))
      case Some(Bug.GoesWithReplicas) => has.copy(replicas = 0)
      case Some(Bug.GoesWithBlocks) => has.copy(blocks = 0)
      case Some(Bug.GoesWithStandby) => of(_.copy(standbysLacking = 0))
      case Some(Bug.GoesAsStrayed) => of(query => query.copy(strayed = query.workers))
      case _ => has
    }
  }

  /** A file that was sent has come to an executor. */
  def afterPush(executor: Executor, pushed: PushedFile): Unit = if (is(Bug.StandbyUnsettled)) {
    val recovery = executor.recovery(pushed.store)
    for {
      standby <- executor.registry.holding(WorkerId(pushed.store, pushed.file.worker))
      if standby.lineage.nonEmpty && standby.head.isEmpty && standby.touched.isEmpty
      footer <- Try(recovery.footer(pushed.file))
    } Try(new CatchUp(recovery)(standby, pushed.file.name, footer.tableHash))
  }

  def orders(orders: Orders): Orders =
    if (is(Bug.OldMessageObeyed)) orders.copy(counter = Long.MaxValue)
    else if (is(Bug.DroppedEarly) && orders.isDraining) orders.copy(runs = orders.runs.map {
      case (run, live) => run -> live.copy(settled = live.settled + 2)
    })
    else orders

  def beforeOpen(executor: Executor, stage: Stage, store: StoreId, worker: Int): Unit = {
    val batch = stage.assignment.storeBatch(store, stage.tables)
    def holding(of: Int) = executor.registry.holding(WorkerId(batch.key, of))
    def sources = batch.after.binsOf(worker).map(batch.before.workerOf).toSet - worker
    bug match {
      case Some(Bug.RelabelByVersion) =>
        for (source <- sources; there <- holding(source))
          if (there.bins.nonEmpty && there.head.isEmpty)
            there.restart(batch.nameOf(source), there.lineage)
      case Some(Bug.TailOfOtherAttempt) =>
        for (incoming <- stage.assignment.incoming; source <- sources) {
          val key = ReplicaKey.forStep(batch.key, source, worker, incoming.step)
          rename(executor.registry.replica(key), batch.nameOf(source))
        }
      case Some(Bug.LastHeadForAccepted) =>
        for (own <- holding(worker)) {
          val name = batch.nameOf(worker)
          if (own.head.exists(head => head.version == name.version && head != name)) {
            own.settle()
            own.restart(name, own.lineage)
          }
        }
      case Some(Bug.StandbyUnsettled) =>
        for (own <- holding(worker) if executor.standing(WorkerId(batch.key, worker)))
          if (own.base.version == batch.version) own.restart(batch.nameOf(worker), own.lineage)
      case Some(Bug.MoveOfIncomplete) =>
        for {
          source <- sources + worker
          there <- holding(source)
          (bin, _) <- there.incomplete if !batch.incomplete(bin)
        } there.put(bin, there.here(bin), there.chain(bin))
      case Some(Bug.StandbyNotCaughtUp) =>
        for (own <- holding(worker) if executor.standing(WorkerId(batch.key, worker)))
          own.restart(batch.nameOf(worker), own.lineage)
      case _ => ()
    }
  }

  /** An executor has obeyed its orders. */
  def afterOrders(executor: Executor): Unit =
    if (is(Bug.ExportDropsEarly)) executor.registry.exports.keep(_ => false)

  /** A standby has come forward, or has one bin more. */
  def afterStandby(duty: StandbyDuty, standby: Holding): Unit = if (standby.lineage.nonEmpty) {
    val store = duty.worker.store.id
    def lacked = duty.bins.filterNot(standby.has)
    bug match {
      case Some(Bug.StandbyMissingIsEmpty) =>
        lacked.foreach(standby.put(_, new BinLog, Chain.Empty))
      case Some(Bug.LeftIsKept) =>
        val before = kept.getOrElse(standby, Vector.empty).filterNot(b => standby.has(b.bin))
        before.foreach(standby.put)
        kept(standby) =
          standby.bins.map(b => LoadedBin(b, standby.log(b), standby.chain(b))).toVector
      case Some(Bug.PromotedWithoutLineage) =>
        if (lacked.isEmpty) standby.restart(standby.base, Vector.empty)
      case Some(Bug.SliceOfOtherVersion) =>
        val newest = world.oracle.settled
        for (ids <- world.checkpoint.idsAt(newest)) {
          val name = ids.getOrElse(store, VersionIds.Fixed).nameOf(newest, duty.worker.worker)
          val file = FileName(duty.worker.worker, name)
          Try(world.recovery(store).load(file, lacked, duty.tableHash)).foreach { loaded =>
            loaded.bins.valuesIterator.foreach(standby.put)
          }
        }
      case _ => ()
    }
  }

  private val kept = mutable.WeakHashMap.empty[Holding, Vector[LoadedBin]]

  def beforeDuty(executor: Executor, duty: ReplicaDuty): Unit = {
    val replica = executor.registry.replica(duty.key)
    bug match {
      case Some(Bug.TailOfOtherAttempt) =>
        for {
          r <- replica
          ids <- world.checkpoint.idsAt(r.base.version)
          of <- ids.get(duty.key.store.id)
          id <- of.ids.lift(duty.key.source)
        } rename(replica, StateName(r.base.version, id))
      case Some(Bug.LackedIsEmpty) =>
        for (r <- replica; bin <- r.lacked) r.alone(_.put(bin, new BinLog, Chain.Empty))
      case Some(Bug.SliceOfNewer) =>
        for (r <- replica if !r.isWhole) r.alone(_.restart(duty.settled, Vector.empty))
      case _ => ()
    }
  }

  def otherBlock(
      block: BlockName,
      blocks: collection.Map[BlockName, Array[Byte]]
  ): Option[Array[Byte]] =
    if (!is(Bug.TailOfOtherAttempt) || block.kind == BlockKind.Image) None
    else
      blocks.collectFirst {
        case (b, bytes)
            if b != block && b.copy(name = block.name) == block &&
              b.name.version == block.name.version =>
          bytes
      }

  def missingBlock(block: BlockName): Option[Array[Byte]] =
    if (!is(Bug.MissingIsEmpty) || block.kind != BlockKind.Image || block.part > 0) None
    else {
      val bins = for {
        driver <- world.drivers.toVector
        run <- driver.live.toVector
        state <- run.snapshot.toVector
        decision <- state.decision.toVector
        step <- decision.announced ++ decision.sealedSteps if step.id == block.step
        move <- step.step.moves
        if move.target == block.target
        if decision.before(step.id.group).workerOf(move.bin) == block.source
      } yield move.bin
      val empty =
        bins.distinct.map(bin => TransferBlocks.BinSnapshot(bin, Chain.Empty, 0, (_, _) => ()))
      val blocks = new TransferBlocks(Compressions(Compression.None))
      var image = Option.empty[Array[Byte]]
      blocks.image(new TransferBlocks.Snapshot(block.source, block.name, empty)) { (_, bytes) =>
        image = Some(bytes)
      }
      image
    }

  def beforeCommit(executor: Executor, stage: Stage, task: WorkerTask): Unit = {
    val holding = task.holding
    if (is(Bug.PartIsWhole))
      holding.incomplete.foreach { case (bin, _) =>
        holding.put(bin, holding.here(bin), holding.chain(bin))
      }
    if (is(Bug.UnsettledImage))
      for {
        outgoing <- stage.assignment.outgoing
        if outgoing.hasImagesNow
        route <- outgoing.routes if route.source == holding.worker
      } {
        val snapshots = route.bins.toVector.map { bin =>
          val log = holding.log(bin)
          val image = log.image()
          val keyCount = log.keyCount.toLong
          TransferBlocks
            .BinSnapshot(bin, holding.chain(bin), keyCount, (_, f) => f(image, image.length))
        }
        val name = task.batch.nameOf(route.source)
        val block = BlockName(
          task.batch.key,
          route.source,
          route.target,
          name,
          BlockKind.Image,
          outgoing.step
        )
        executor.agent.publisher
          .publish(block, new TransferBlocks.Snapshot(route.source, name, snapshots))
      }
  }

  def afterCommit(holding: Holding): Unit = bug match {
    case Some(Bug.CompactionAboveSettled) =>
      holding.touched.foreach { bin =>
        holding.log(bin).settle()
        holding.log(bin).compact()
      }
    case Some(Bug.BroughtIsForgotten) =>
      holding.incomplete.foreach { case (bin, r) =>
        val again = new Remote(r.key, r.name, r.chain, r.at, r.keys)
        holding.put(LoadedBin(bin, holding.log(bin), holding.chain(bin), Some(again)))
      }
    case Some(Bug.BaseAtHead) =>
      holding.incomplete.foreach { case (bin, r) =>
        replace(
          holding,
          bin,
          new Remote(r.key, r.name, holding.chain(bin), r.at, r.keys),
          _ => true
        )
      }
    case Some(Bug.RemovedIsElsewhere) =>
      holding.incomplete.foreach { case (bin, r) =>
        val alive = (0 until setup.keys)
          .filter(key => Cells.binOf(key, setup.bins) == bin && Cells.get(holding, bin, key) != 0)
          .map(Cells.hashOf(_))
          .toSet
        replace(holding, bin, new Remote(r.key, r.name, r.chain, r.at, r.keys), alive)
      }
    case _ => ()
  }

  /** Has something else stand for what of a bin is elsewhere, with those of the sub-bins that are
    * here.
    */
  private def replace(holding: Holding, bin: Int, by: Remote, isHere: Int => Boolean): Unit =
    holding.incomplete.collectFirst { case (`bin`, r) =>
      var keysHere = (r.keys - r.keysElsewhere).toInt
      r.hereFrom(Int.MinValue).filter(isHere).foreach { hash =>
        by.brought(hash, keysHere)
        keysHere = 0
      }
      holding.put(LoadedBin(bin, holding.log(bin), holding.chain(bin), Some(by)))
    }

  /** What an executor says about bins that a step on demand has left there. */
  def answer(question: Question, answer: Answer, source: Executor): Answer = (bug, answer) match {
    case (Some(Bug.DueTooLate), Answer.AllDue(found)) =>
      Answer.AllDue(found.map { of =>
        if (of.stretch.next.isDefined) of
        else of.copy(stretch = of.stretch.copy(subBins = of.stretch.subBins.drop(1)))
      })
    case (Some(Bug.ExportOfHead), Answer.NotYet | Answer.Gone) =>
      ofHead(question, source).getOrElse(answer)
    case (Some(Bug.AnsweredAsBefore), Answer.SubBins(found)) =>
      Answer.SubBins(found.map { case (bin, subBins) =>
        bin -> subBins.map(s => seen.getOrElseUpdate((question.key.store, s.hash), s))
      })
    case _ => answer
  }

  /** What an executor would answer with the newest records that its worker has. */
  private def ofHead(question: Question, source: Executor): Option[Answer] = for {
    holding <- source.registry.holding(WorkerId(question.key.store, question.key.source))
    bins = question.keys.keys.toVector
    if bins.forall(bin => holding.has(bin) && holding.stateOf(bin).elsewhere.isEmpty)
  } yield {
    val registry = new Registry
    registry.useKeyReader(question.key.store, () => Cells.Reader)
    val worker = WorkerId(question.key.store, question.key.source)
    val copied = registry.lease(worker, setup.bins, new Attempt(0, () => true), 0).holding
    bins.foreach { bin =>
      val (log, image) = (new BinLog, holding.log(bin).image())
      log.apply(image, 0, image.length)
      log.settle()
      copied.put(bin, log, holding.chain(bin))
    }
    copied.restart(question.name, Vector.empty)
    new Answering(registry)(question)
  }

  private val seen = mutable.Map.empty[(StoreKey, Int), SubBin]

  /** An attempt has given its leases back without a commit. */
  def afterFailure(holding: Holding): Unit = if (is(Bug.BroughtIsUndone))
    for {
      (bin, remote) <- holding.incomplete
      key <- 0 until setup.keys
      if Cells.binOf(key, setup.bins) == bin && remote.isHere(Cells.hashOf(key))
    } {
      Cells.remove(holding, bin, key)
      holding.here(bin).settle()
    }

  def beforeBatch(decision: Protocol.Decision): Unit = if (is(Bug.CloseDropsOutgoing))
    for {
      group <- setup.groups
      executor <- world.executors
      worker <- decision.after(group.id).workers until decision.before(group.id).workers
    } {
      val operators = group.operators.map(_.id).toSet
      executor.keep(b => b.source != worker || !operators(b.key.id.operator))
      for {
        store <- group.stores
        run <- executor.registry.runs
        holding <- executor.registry.holding(WorkerId(store.in(run), worker))
      } holding.bins.toVector.foreach(holding.drop)
    }

  /** Creates a record; returns false if its number is taken. */
  def create(log: MemoryPlanLog, number: Long, record: LogRecord): Boolean =
    record match {
      case _: LogRecord.Sealed if is(Bug.SealAnyway) => log.create(log.nextNumber, record)
      case _: LogRecord.Trimmed if is(Bug.DeletesBeforeTrimmed) =>
        log.numbers().filter(_ < number).foreach(log.delete)
        world.driverMayDie("before the record that stands for those that are deleted")
        log.create(number, record)
      case LogRecord.Trimmed(run, kept) if is(Bug.TrimsInForce) =>
        val seals = kept.seals
        val later = seals.copy(byBatch = seals.byBatch.rangeFrom(seals.since + 1))
        log.create(number, LogRecord.Trimmed(run, kept.copy(seals = later)))
      case _ => log.create(number, record)
    }

  /** The numbers of the records, as a driver sees them that has just appended one. */
  def numbers(log: MemoryPlanLog, appended: Long): Vector[Long] =
    if (is(Bug.TrimUnseen)) log.numbers().filter(_ <= appended) else log.numbers()

  def history(log: MemoryPlanLog): History = {
    val history = world.history
    if (!is(Bug.VoidSealsKept)) history
    else {
      val seals = log.all.collect { case s: LogRecord.Sealed => s }
      seals.foldLeft(history)(_ + _).copy(nextNumber = history.nextNumber)
    }
  }

  /** What a run takes for the seal that is to be restored. */
  def recoveryAtStart(store: StoreId): Recovery =
    if (!is(Bug.TakenBackForGood)) world.recovery(store)
    else
      new Recovery(world.checkpoint.files(store), Compressions(Compression.None)) {
        override def footer(file: FileName): Footer = super.footer(file).copy(tableHash = 0)
      }

  /** A sweep by the owners of files, each for itself. Returns false if there is none. */
  def sweep(order: SweepOrder, ids: Map[StoreId, VersionIds]): Boolean = is(Bug.OwnerDeletes) && {
    val oldest = order.oldest(ids)
    for {
      group <- setup.groups
      store <- group.stores
      files = world.checkpoint.files(store)
      head <- Try(oldest.heads(group.id, store)).getOrElse(Vector.empty)
      needed <- Try(new Sweep(world.recovery(store)).referenced(Vector(head)))
      own = files.listed.filter(_.worker == head.file.worker)
      file <- Sweep.unneeded(own, needed, oldest.version)
    } files.delete(file)
    true
  }

  private def rename(replica: Option[Replica], name: StateName): Unit =
    replica.foreach(_.alone { r =>
      if (r.base.version == name.version && r.base != name) r.restart(name, Vector.empty)
    })
}
