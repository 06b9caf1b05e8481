// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import io.megaphone.checkpoint.{AtomicOutput, CatchUp, Parallel, Recovery, StateFiles}
import io.megaphone.format.{
  Compression, Compressions, Decoder, DeltaFile, FileName, FileSource, Footer, Frame, StateName
}
import io.megaphone.log.Bytes
import io.megaphone.plan.{Move, RoutingTable}
import io.megaphone.state.{Holding, LoadedBin, Registry}
import io.megaphone.testkit.PassedOn

/** What a recovery reads after a long history: few footers and, of the records, what it needs and
  * nothing else. That nothing is listed goes without a test: [[StateFiles]] cannot.
  */
class RecoveryReadsSuite extends AnyFunSuite with SmallStore {
  import RecoveryReadsSuite._

  /** The commits of two workers. Some of their bins change in each batch, in what they have
    * already, so that images come again and again; the others gain a key now and then, and are
    * never written whole. Twice, bins move from one worker to the other.
    */
  private final class Past {
    val store = new Store(Bins)
    private val random = new Random(1)
    private val registry = new Registry
    private val leases = (0 to 1).map(worker => store.lease(registry, worker, worker + 1L))
    private var table = RoutingTable.roundRobin(Bins, 2)

    /** All frames that were written; and those of each bin from its last image on, in order. By the
      * footers of all commits, each for its own frames.
      */
    val written = mutable.ArrayBuffer.empty[Frame]
    val needed = mutable.Map.empty[Int, Vector[Frame]].withDefaultValue(Vector.empty)

    for (version <- 0 until Commits) {
      val next = Moves.get(version).fold(table)(moves => table.moved(moves, version.toLong, 2))
      val turn = store.turn(version.toLong, table, next)
      leases.foreach(store.open(registry, _, turn))
      for (lease <- leases) {
        next.binsOf(lease.holding.worker).foreach(change(lease.holding, _, version))
        val frames = store.commit(lease, turn).frames
        written ++= frames
        frames.foreach(frame =>
          needed(frame.bin) = if (frame.isImage) Vector(frame) else needed(frame.bin) :+ frame
        )
      }
      table = next
    }

    def tableHash: Long = table.contentHash
    def bins: Set[Int] = table.binsOf(0).toSet
    def holding: Holding = leases(0).holding

    private def change(holding: Holding, bin: Int, version: Int): Unit =
      if (version == 0) set(holding, bin, "first", 100)
      else if (bin % 8 >= 2)
        set(holding, bin, s"key ${random.nextInt(2)}", 2000 + random.nextInt(3000))
      else if ((version + bin / 8) % 10 == 0) set(holding, bin, s"of $version", 10)

    private def set(holding: Holding, bin: Int, name: String, bytes: Int): Unit =
      put(holding, bin, name.getBytes, Bytes.random(bytes, random.nextLong()))
  }

  /** Files that tell what was read of them, beside the headers. */
  private final class Watched(files: StateFiles) extends StateFiles {
    val openings = mutable.ArrayBuffer.empty[Opening]

    /** How many files were open at the same time, at most. */
    var mostOpen = 0
    def create(file: FileName): AtomicOutput = fail(s"$file was written")
    def open(file: FileName): FileSource = {
      val opening = new Opening(file, files.open(file))
      openings += opening
      mostOpen = math.max(mostOpen, openings.count(!_.isClosed))
      opening
    }
  }

  private lazy val past = new Past

  /** Loads bins of worker 0 at its last version, and sees what is read. */
  private def check(bins: Set[Int]): Unit = {
    val files = new Watched(past.store.files)
    val loaded = new Recovery(files, Compressions(Compression.None))
      .load(FileName(0, StateName(Commits.toLong, "")), bins, past.tableHash)
    val chunks = bins.flatMap(past.needed(_)).map(_.chunk)

    val footers = files.openings.filter(_.readsFooter).map(_.file)
    assert(footers.size <= Footer.Slices && footers.distinct == footers)
    assert(footers.forall(file => file.worker == 0 && file.name.version > Commits - Footer.Slices))

    val records = files.openings.flatMap(_.records)
    assert(records.distinct == records, "no chunk is read twice")
    assert(records.toSet == chunks.map(chunk => (chunk.file, chunk.offset, chunk.storedBytes)))
    assert(loaded.traffic.fromCheckpoint == chunks.toSeq.map(_.storedBytes.toLong).sum)

    val opened = files.openings.map(_.file)
    assert(opened.distinct == opened, "a file is open from its footer to its records")
    assert(opened.toSet == footers.toSet ++ chunks.map(_.file))
    assert(files.mostOpen <= Footer.Slices + 1, "those that are read are closed")
    assert(
      files.openings.forall(opening => opening.isClosed && opening.reads.distinct == opening.reads)
    )

    assert(loaded.bins.keySet == bins)
    for ((bin, LoadedBin(_, log, _, _)) <- loaded.bins)
      assert(
        Bytes.replay(log.image()) == Bytes.replay(past.holding.log(bin).image()),
        s"in bin $bin"
      )
  }

  test(
    "a recovery reads at most sixteen footers, and each chunk that it needs once"
  ) {
    val frames = past.bins.flatMap(past.needed(_))
    val chunks = frames.map(_.chunk)
    assert(
      frames.size > past.bins.size && frames.exists(_.isImage),
      "chains have images, and tails"
    )
    assert(
      frames.map(_.file).size > Footer.Slices,
      "they go back further than the footers that are read"
    )
    assert(
      frames.exists(_.file.worker == 1),
      "some begin in the files of the worker that had the bin"
    )
    assert(
      past.written.exists(frame => chunks(frame.chunk) && !frames(frame)),
      "what is needed shares chunks with what is not"
    )
    assert(
      past.written.exists(frame => frames.exists(_.file == frame.file) && !chunks(frame.chunk)),
      "files have chunks that are not needed"
    )
    check(past.bins)
  }

  test("a worker that missed batches opens the file of each once") {
    val missed = 5
    val base = StateName(Commits.toLong - missed, "")
    val files = new Watched(past.store.files)
    val recovery = new Recovery(files, Compressions(Compression.None))
    val loaded = recovery.load(FileName(0, base), past.bins, past.tableHash)
    val holding = new Holding(0, Bins)
    loaded.bins.valuesIterator.foreach(holding.put)
    holding.restart(base, loaded.lineage)
    files.openings.clear()
    val traffic = new CatchUp(recovery)(holding, StateName(Commits.toLong, ""), past.tableHash)
    assert(traffic.exists(_.fromCheckpoint > 0))
    val versions = files.openings.map(_.file.name.version)
    assert(versions.sorted == (Commits - missed + 1 to Commits).map(_.toLong))
    assert(files.openings.forall(_.isClosed))
    for (bin <- past.bins)
      assert(
        Bytes.replay(holding.log(bin).image()) == Bytes.replay(past.holding.log(bin).image()),
        s"in bin $bin"
      )
  }

  test("the files of a chain are waited for at the same time, on an executor of one core, too") {
    val newest = FileName(0, StateName(Commits.toLong, ""))
    val previous = past.store.recovery.footers(newest).size - 1
    val areIn = new CountDownLatch(previous)
    val waiting = new StateFiles {
      def create(file: FileName): AtomicOutput = fail(s"$file was written")
      def open(file: FileName): FileSource = {
        if (file.name.version < Commits) {
          areIn.countDown()
          assert(areIn.await(60, TimeUnit.SECONDS), s"${areIn.getCount} of $previous are not in")
        }
        past.store.files.open(file)
      }
    }
    val recovery =
      new Recovery(waiting, Compressions(Compression.None), new Parallel.OnNewThreads(1))
    assert(recovery.load(newest, past.bins, past.tableHash).bins.keySet == past.bins)
    assert(previous == Footer.PreviousMax)
  }

  test("a recovery that is interrupted leaves no file open, also if an opening hangs") {
    val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    val opened = new ConcurrentLinkedQueue[Opening]
    val hanging = new StateFiles {
      def create(file: FileName): AtomicOutput = fail(s"$file was written")
      def open(file: FileName): FileSource = {
        // The newest file is opened by the caller, the others by threads of the recovery.
        if (file.name.version < Commits) { isIn.countDown(); Uninterrupted.await(goOn) }
        val opening = new Opening(file, past.store.files.open(file))
        opened.add(opening)
        opening
      }
    }
    val recovery =
      new Recovery(hanging, Compressions(Compression.None), new Parallel.OnNewThreads(2))
    val newest = FileName(0, StateName(Commits.toLong, ""))
    val caller = new Thread(() =>
      try { recovery.load(newest, past.bins, past.tableHash); () }
      catch { case _: InterruptedException => () }
    )
    caller.start()
    isIn.await()
    caller.interrupt()
    caller.join(60000)
    assert(!caller.isAlive, "it does not wait for the files")
    goOn.countDown()
    eventually(timeout(60.seconds)) {
      assert(opened.size > 1 && opened.asScala.forall(_.isClosed))
    }
  }

  test("some bins of a worker are recovered by no other chunk than theirs") {
    val adopted = Moves.values.flatten.collect { case Move(bin, 0) => bin }.toSet
    val few = Seq(
      Set(0),
      Set(4),
      Set(1, 9),
      adopted,
      past.bins.filter(_ < 16),
      past.bins.filter(_ % 8 == 0)
    )
    few.foreach { bins =>
      assert(bins.subsetOf(past.bins))
      check(bins)
    }
  }
}

private object RecoveryReadsSuite {

  /** Waits as a thread waits for a file system that hangs: whatever else happens. */
  object Uninterrupted {
    def await(latch: CountDownLatch): Unit =
      try latch.await()
      catch { case _: InterruptedException => await(latch) }
  }

  val Bins = 64
  val Commits = 60
  val Moves: Map[Int, Seq[Move]] = Map(
    25 -> Seq(Move(1, 0), Move(3, 0), Move(9, 0)),
    50 -> Seq(Move(2, 1), Move(5, 0), Move(7, 0), Move(8, 1), Move(17, 0))
  )

  /** A file that was opened, and what was read of it. */
  final class Opening(val file: FileName, source: FileSource) extends PassedOn(source) {
    private val trailer = (source.length - DeltaFile.TrailerBytes, DeltaFile.TrailerBytes)
    private val footer = {
      val offset = new Decoder(source.name, source.read(trailer._1, trailer._2)).long()
      (offset, (trailer._1 - offset).toInt)
    }
    val reads = mutable.ArrayBuffer.empty[(Long, Int)]
    @volatile var isClosed = false

    def readsFooter: Boolean = reads.contains(trailer) || reads.contains(footer)

    /** Where it read anything but the header, the trailer and the footer. */
    def records: Seq[(FileName, Long, Int)] = {
      val others = reads.filterNot(Set((0L, DeltaFile.HeaderBytes), trailer, footer))
      others.map { case (position, count) => (file, position, count) }.toSeq
    }

    override def read(position: Long, count: Int): Array[Byte] = {
      reads += ((position, count)); super.read(position, count)
    }
    override def close(): Unit = { isClosed = true; super.close() }
  }
}
