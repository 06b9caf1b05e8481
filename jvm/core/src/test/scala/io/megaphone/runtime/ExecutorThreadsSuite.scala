// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.immutable.ArraySeq
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, Committer, Recovery, StateFiles}
import io.megaphone.errors.{DetachedLeaseException, LeaseTimeoutException}
import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, FileName, FileSource, StateName, StoreId, VersionIds,
  WriterId
}
import io.megaphone.plan.{Operator, StepId, TransferMode}
import io.megaphone.protocol.Route
import io.megaphone.state.{Attempt, Registry, ReplicaKey}
import io.megaphone.testkit.{PassedOn, Turns}
import io.megaphone.transfer.{BlockKind, BlockName, ReplicaDuty, TransferBlocks}

/** The threads of one executor in forced orders: two attempts of a step's task, the preparer, the
  * reporter and the publisher, who meet at each use of a file, a peer and a fault point.
  */
class ExecutorThreadsSuite extends AnyFunSuite with SmallStore {
  private val id = StoreId(0, "default")
  private val step = StepId("plan", 0, 0)
  private val next = StepId("plan", 0, 1)
  private val moving = ReplicaKey.forStep(id.in("run"), 0, 1, step)
  private val peer = ExecutorAddress("peer", "host", 1)
  private val Batches = 4 // before the step's, of which the image is two versions old

  test("whoever comes first, an attempt of the step's task commits what a batch query answers") {
    val ends = for (seed <- 1 to 500) yield new Schedule(seed).run()
    for (end <- Seq("first", "second"))
      assert(ends.exists(_.contains(end)), s"the $end attempt never committed")
    assert(ends.exists(_.contains("replica")) && ends.exists(_.contains("files")))
  }

  /** Bin 0 moves from worker 0 of another executor to worker 1 of this one. */
  private final class Schedule(seed: Int) {
    private val random = new Random(seed)
    private val turns = new Turns(random)
    private val isFaulty = seed % 3 == 0
    private val store = new Store
    private val files: StateFiles = new StateFiles {
      override def create(file: FileName): AtomicOutput = { use(); store.files.create(file) }
      override def open(file: FileName): FileSource = {
        use()
        new PassedOn(store.files.open(file)) {
          override def read(position: Long, count: Int): Array[Byte] = {
            use()
            super.read(position, count)
          }
        }
      }

      /** Each third schedule has a file system with faults. */
      private def use(): Unit = {
        turns.gate()
        if (isFaulty && random.nextInt(20) == 0) throw new IOException("the connection was lost")
      }
    }
    private val recovery = new Recovery(files, Compressions(Compression.None))
    private val registry = new Registry // in which worker 1 has been so far
    private val (image, tails) = committed()
    private val faults = new FaultPoints {
      override def at(point: String): Unit = turns.gate()
      override def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]] = Some(bytes)
    }
    private val peers = new SomePeers(block => { turns.gate(); blockOf(block) })
    private lazy val agent = new ExecutorAgent(
      registry,
      peers,
      new TransferBlocks(Compressions(Compression.None), partBytes = 32),
      faults,
      (_, _, _) => recovery,
      pullDeadlineMs = 1000,
      _ => ()
    )
    private var ends = Set.empty[String]

    /** The blocks of worker 0: its image at version 2, and the tails that came after it. */
    private def committed(): (Array[Byte], Map[Long, Array[Byte]]) = {
      val source = new Registry
      var image = Array.emptyByteArray
      val tails = for (v <- 0L until Batches.toLong; worker <- 0 to 1) yield {
        val memory = if (worker == 0) source else registry
        val lease = store.lease(memory, worker, 2 * v + worker)
        store.open(memory, lease, store.turn(v, before, before))
        if (v == 2 && worker == 0)
          image = onlyPart(store.handOver.image(TransferBlocks.snapshot(lease.holding, Seq(0))))
        before.binsOf(worker).foreach(append(lease.holding, _, v.toByte))
        store.commit(lease, store.turn(v, before, before))
        val tail = Option.when(worker == 0)(
          v + 1 -> onlyPart(store.handOver.tail(lease.holding, Seq(0)))
        )
        lease.end()
        tail
      }
      (image, tails.flatten.toMap)
    }

    private def blockOf(block: BlockName): Option[Array[Byte]] =
      if (block.part > 0) None
      else if (block.kind == BlockKind.Image) Option.when(block.name.version == 2)(image)
      else tails.get(block.name.version)

    private def duty(settled: Long) = ReplicaDuty(
      moving,
      Vector(0),
      4,
      Some(StateName(2, "")),
      StateName(settled, ""),
      before.contentHash,
      Some(peer),
      Some(peer)
    )

    private def orders(counter: Long, settled: Long, steps: StepId*) = Orders(
      counter,
      Map("run" -> LiveRun("root", settled, steps.toSet, None)),
      if (steps.contains(step)) Vector(duty(math.min(settled, Batches.toLong))) else Vector.empty
    )

    private val tables = Tables(before, after)
    private val assignment = Assignment(
      "run",
      0,
      Vector(Operator(0, "aggregate", Vector("default"))),
      Batches.toLong,
      Map(id -> VersionIds.Fixed),
      Vector(Incoming(step, ArraySeq(0))),
      Map(0 -> peer),
      Vector(
        Outgoing(
          next,
          TransferMode.Prepared,
          hasImagesNow = true,
          Vector(Route(1, 0, ArraySeq(1)))
        )
      ),
      "label"
    )

    private object host extends DutyHost {
      override def begins(key: ReplicaKey): Unit = ()
      override def ends(key: ReplicaKey): Unit = turns.gate()
      override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = cause match {
        case _: IOException => () // the host logs it, and goes on
        case _ => throw cause
      }
    }

    /** An attempt of worker 1's task; returns the id under which it committed. */
    private def attempt(number: Long, isAlive: () => Boolean): Option[String] = {
      val of = WorkerTask.Store(id, files, recovery, Compression.None)
      val settings = WorkerTask.Settings(60000, 1000, 1000, Committer.Limits())
      try {
        val task = WorkerTask.open(
          agent,
          of,
          1,
          Batches.toLong,
          assignment,
          tables,
          new Attempt(number, isAlive),
          settings
        )
        try {
          after.binsOf(1).foreach { bin => turns.gate(); append(task.holding, bin, Batches.toByte) }
          task.commit(s"i$number", WriterId(0, number))
          if (task.arrivals.binsFromPeer > 0) ends += "replica" else ends += "files"
          Some(s"i$number")
        } finally task.end()
      } catch { case _: DetachedLeaseException | _: LeaseTimeoutException | _: IOException => None }
    }

    /** How the schedule ended. Throws if a committed state is not that of the batches. */
    def run(): Set[String] = {
      agent.obey(orders(1, 3, step))
      val isAlive = new AtomicBoolean(true)
      var commits = Vector.empty[String]
      def note(name: String, committed: Option[String]): Unit = committed.foreach { id =>
        synchronized { commits :+= id; ends += name }
      }
      turns.actor("first attempt")(note("first", attempt(101, () => isAlive.get)))
      turns.actor("second attempt") {
        turns.gate()
        isAlive.set(random.nextBoolean()) // it is sent because the first was killed, or is slow
        note("second", attempt(102, () => true))
      }
      turns.actor("preparer") {
        for (_ <- 1 to 5) {
          agent.replicas.work(agent.replicas.duties.map(_.key), host)
          turns.gate()
        }
      }
      turns.actor("reporter") {
        for (now <- Seq(orders(2, 4, step), orders(3, 4, step, next), orders(4, 5, next))) {
          agent.report
          turns.gate()
          agent.obey(now)
        }
      }
      turns.actor("publisher")(for (_ <- 1 to 3) { agent.publisher.publishNext(); turns.gate() })
      turns.run()
      for (number <- 103L to 130L if commits.isEmpty) note("last", attempt(number, () => true))
      agent.obey(orders(5, 5, next))
      assert(commits.nonEmpty, "no attempt could commit")
      for (id <- commits) checkCommitted(id)
      assert(registry.replicasCount == 0, "no order names the replica any more")
      ends
    }

    private def checkCommitted(id: String): Unit = {
      val file = FileName(1, StateName(Batches + 1L, id))
      val bins = after.binsOf(1).toSeq
      val loaded = store.recovery.load(file, bins, after.contentHash).bins
      for (bin <- bins)
        assert(
          list(loaded(bin).log) == (0 to Batches).map(_.toByte),
          s"bin $bin of $id in schedule $seed"
        )
    }
  }
}
