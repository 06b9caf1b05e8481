// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{Committer, Recovery}
import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{
  Chain, Compression, Compressions, StateName, StoreId, VersionIds, WriterId
}
import io.megaphone.pace.{Clock, Hands}
import io.megaphone.plan.{Operator, RoutingTable, StepId}
import io.megaphone.state.{Attempt, Holding, Lease, Registry}
import io.megaphone.transfer.{BlockKind, BlockName, Coming, Peers, TransferBlocks}
import io.megaphone.transfer.TransferBlocks.{BinSnapshot, Part}

/** What is larger than a part travels in several, and arrives whole or not at all. */
class TransferPartsSuite extends AnyFunSuite with SmallStore {
  private val table = RoutingTable.roundRobin(4, 1)
  private val bins = Seq(0, 1, 2, 3)
  private val blocks = new TransferBlocks(Compressions(Compression.None), partBytes = 1)

  /** A worker with a value in each of four bins, whose second commit appended to all but bin 2. */
  private def committed(): (Lease, Map[Int, Part], Map[Int, Part]) = {
    val (store, registry) = (new Store, new Registry)
    batch(store, registry, 0, 1, table, table, 7)
    val turn = store.turn(1, table, table)
    val lease = store.lease(registry, 0, 9)
    store.open(registry, lease, turn)
    val image = parts("image")(blocks.image(TransferBlocks.snapshot(lease.holding, bins)))
    for (bin <- bins if bin != 2) append(lease.holding, bin, 8)
    store.commit(lease, turn)
    (lease, image, parts("tail", 3)(blocks.tail(lease.holding, bins)))
  }

  private def parts(name: String, count: Int = 4)(make: Making): Map[Int, Part] = {
    val all = partsOf(make)
    assert(all.map(_._1) == (1 until count) :+ 0, "part 0 comes last")
    all.map { case (number, bytes) => number -> Part(s"$name $number", bytes) }.toMap
  }

  private def replica(image: Map[Int, Part]): Option[Holding] =
    blocks.replicaOf(bins, 4)(number => Coming.now(image.get(number)))

  private def lists(holding: Holding): Seq[Seq[Byte]] = bins.map(bin => list(holding.log(bin)))

  test("an image in parts arrives whole") {
    val (_, image, _) = committed()
    assert(lists(replica(image).get) == Seq.fill(4)(Seq(7)))
  }

  test("a part of an image is asked for before the one before it is taken in, and none in vain") {
    val (_, image, _) = committed()
    val events = mutable.Buffer.empty[String]
    val taken = blocks.replicaOf(bins, 4, (_, _) => { events += "takes in"; () }) { number =>
      events += s"asks for $number"
      Coming.now(image.get(number))
    }
    assert(taken.isDefined)
    val ahead = (1 to 3).flatMap(part => Seq(s"asks for $part", "takes in"))
    assert(events.toSeq == "asks for 0" +: ahead :+ "takes in")
  }

  test("an image that lacks a part does not arrive") {
    val (_, image, _) = committed()
    assert(replica(image - 0).isEmpty)
    for (number <- 1 to 3) assertThrows[DamagedFileException](replica(image - number))
  }

  test("parts of two makings of one block do not fit together") {
    val (_, image, tail) = committed()
    val (_, again, later) = committed()
    assert(lists(replica(again).get) == lists(replica(image).get))
    assertThrows[DamagedFileException](replica(image + (1 -> again(1))))
    val target = replica(image).get
    assert(!blocks.applyTail(Seq(tail(0), later(1), tail(2)), target))
    assert(blocks.applyTail((0 until 3).map(later), target))
  }

  test("a part that brings no new bin, or is of another state, is damage") {
    val (lease, image, tail) = committed()
    assertThrows[DamagedFileException](replica(image + (1 -> image(0))))
    assertThrows[DamagedFileException](replica(image + (1 -> tail(1))))
    val newer = parts("image")(blocks.image(TransferBlocks.headSnapshot(lease.holding, bins)))
    assertThrows[DamagedFileException](replica(image + (2 -> newer(2))))
  }

  test("a tail in parts is applied whole, or not at all") {
    val (_, image, tail) = committed()
    val target = replica(image).get
    val all = (0 until 3).map(tail) // that of bin 2 is empty, and travels with another
    for (part <- all) assert(!blocks.applyTail(all.filterNot(_ == part), target))
    assert(!blocks.applyTail(image(0) +: all.tail, target))
    assert(!blocks.applyTail(Nil, target))
    assert(target.base == StateName(1, "") && lists(target) == Seq.fill(4)(Seq(7)))
    assert(blocks.applyTail(all, target))
    assert(lists(target) == Seq(Seq(7, 8), Seq(7, 8), Seq(7), Seq(7, 8)))
  }

  test("a tail that is too large to be in memory as a whole is not published") {
    val (lease, _, _) = committed() // 24 bytes for each of three bins
    def count(tailBytesMax: Long) = {
      val blocks = new TransferBlocks(Compressions(Compression.None), tailBytesMax = tailBytesMax)
      partsOf(blocks.tail(lease.holding, bins)).size
    }
    assert(count(72) == 1 && count(71) == 0)
  }

  test("an image of the head is read part by part") {
    val (lease, _, _) = committed()
    val image = parts("image")(blocks.image(TransferBlocks.headSnapshot(lease.holding, bins)))
    assert(lists(replica(image).get) == Seq(Seq(7, 8), Seq(7, 8), Seq(7), Seq(7, 8)))
    for (name <- Seq("one", "two", "three")) put(lease.holding, 1, name.getBytes, Array[Byte](7))
    var pieces = 0
    TransferBlocks.headSnapshot(lease.holding, Seq(1)).bins.head.records(1, (_, _) => pieces += 1)
    assert(pieces == 4, "one record each")
  }

  test("bins with few bytes share a part, and there is always a first part") {
    val (lease, _, _) = committed()
    val snapshot = TransferBlocks.snapshot(lease.holding, bins)
    val large = new TransferBlocks(Compressions(Compression.None))
    assert(partsOf(large.image(snapshot)).map(_._1) == Seq(0))
    val two = new TransferBlocks(Compressions(Compression.None), partBytes = 2 * 24)
    assert(partsOf(two.image(snapshot)).map(_._1) == Seq(1, 0))
    assert(partsOf(blocks.tail(lease.holding, Nil)).map(_._1) == Seq(0))
  }

  test("a part of an image has four MiB at most, however large parts may be") {
    val piece = new Array[Byte](1 << 20)
    def records(count: Int)(most: Int, use: (Array[Byte], Int) => Unit): Unit =
      for (_ <- 1 to count) { assert(most < piece.length); use(piece, piece.length) }
    val bins = Vector(BinSnapshot(3, Chain.Empty, 0, records(9)))
    val snapshot = new TransferBlocks.Snapshot(0, StateName(1, ""), bins)
    val parts = partsOf(new TransferBlocks(Compressions(Compression.None)).image(snapshot))
    assert(parts.map(_._1) == Seq(1, 2, 0))
    assert(parts.map(_._2.length >> 20).toSet == Set(1, 4))
  }

  test("if a part cannot be published, none of its block is left") {
    val (lease, _, _) = committed()
    val published = mutable.ArrayBuffer.empty[Int]
    val key = StoreId(0, "default").in("run")
    val block =
      BlockName(key, 0, 1, StateName(2, ""), BlockKind.Tail, StepId("plan", 0, 0))
    val peers = new SomePeers(_ => None) {
      override def publish(made: BlockName, bytes: Array[Byte]): Unit = {
        if (made.part == 2) throw new IllegalStateException("no room")
        published += made.part
      }
      override def remove(blocks: Seq[BlockName]): Unit = published --= blocks.map(_.part)
    }
    val told = mutable.Buffer.empty[String]
    val agent = agentWith(peers, told)
    agent.publisher.publishTail(block, lease.holding, bins)
    assert(published.isEmpty && told.size == 1)
  }

  test("an executor holds the last two tails of a replica, and looks at no other block for it") {
    val (lease, _, _) = committed()
    val published = mutable.LinkedHashSet.empty[BlockName]
    val peers = new SomePeers(_ => None) {
      override def publish(made: BlockName, bytes: Array[Byte]): Unit = published += made
      override def remove(blocks: Seq[BlockName]): Unit = published --= blocks
      override def keep(isWanted: BlockName => Boolean): Unit = fail("all blocks are looked at")
    }
    val agent = agentWith(peers, mutable.Buffer.empty)
    val key = StoreId(0, "default").in("run")
    for (version <- 2 to 5; target <- 1 to 3) {
      val step = StepId("plan", 0, 0)
      val name = StateName(version.toLong, "")
      agent.publisher.publishTail(
        BlockName(key, 0, target, name, BlockKind.Tail, step),
        lease.holding,
        bins
      )
    }
    val held = published.toSeq.groupMap(b => (b.target, b.name.version))(_.part)
    assert(held.keySet == (1 to 3).flatMap(target => Seq((target, 4L), (target, 5L))).toSet)
    assert(held.values.forall(_.toSet == Set(0, 1, 2)))
  }

  test("the first large bin of a store is told once, and again of another store") {
    val (lease, _, _) = committed()
    val told = mutable.Buffer.empty[String]
    val agent = agentWith(NoPeers, told, largeBinBytes = 23)
    val (one, other) = (StoreId(0, "default").in("run"), StoreId(1, "default").in("run"))
    for (store <- Seq(one, one, other)) agent.committing(store, lease.holding)
    assert(
      told.size == 2 && told.head.startsWith("Bin ") && told.head.contains("0 MiB"),
      told.mkString("; ")
    )
    val quiet = agentWith(NoPeers, told, largeBinBytes = 1 << 20)
    quiet.committing(one, lease.holding)
    assert(told.size == 2)
  }

  test("a task that commits a large bin says so") {
    val told = mutable.Buffer.empty[String]
    val task = openedBy(agentWith(NoPeers, told, largeBinBytes = 23))
    put(task.holding, 0, 7)
    assert(told.isEmpty)
    task.commit("", WriterId(0, 1))
    task.end()
    assert(
      told.size == 1 && told.head.startsWith(
        s"Bin 0 of ${StoreId(0, "default").in("run")} has 0 MiB"
      )
    )
  }

  test("what a task waited for, and how long it used the state, go by the executor's clock") {
    val clock = new Hands
    val task = openedBy(agentWith(NoPeers, mutable.Buffer.empty, clock = clock))
    put(task.holding, 0, 7)
    clock.nanoTime += 5000000
    task.arrivals.waiting(clock.nanoTime += 70000000)
    val committed = task.commit("", WriterId(0, 1))
    task.end()
    assert(committed.busyMs == 75 && committed.arrivals.waitMs == 70)
  }

  /** The task of a worker's first batch. */
  private def openedBy(agent: ExecutorAgent): WorkerTask = {
    val store = new Store
    val id = StoreId(0, "default")
    val assignment = Assignment(
      "run",
      0,
      Vector(Operator(0, "aggregate", Vector("default"))),
      batch = 0,
      Map(id -> VersionIds.Fixed),
      Vector.empty,
      Map.empty,
      Vector.empty,
      "label"
    )
    WorkerTask.open(
      agent,
      WorkerTask.Store(id, store.files, store.recovery, Compression.None),
      0,
      version = 0,
      assignment,
      Tables(before, before),
      new Attempt(1, () => true),
      WorkerTask.Settings(0, 0, 0, Committer.Limits())
    )
  }

  private def agentWith(
      peers: Peers,
      told: mutable.Buffer[String],
      largeBinBytes: Long = Long.MaxValue,
      clock: Clock = Clock.System
  ) = new ExecutorAgent(
    new Registry,
    peers,
    blocks,
    FaultPoints.Off,
    (_, _, _) => new Recovery(new Store().files, Compressions(Compression.None)),
    0,
    text => { told += text; () },
    largeBinBytes = largeBinBytes,
    clock = clock
  )
}
