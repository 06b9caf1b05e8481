// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.io.ByteArrayOutputStream

import io.megaphone.checkpoint.CatchUp
import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{
  BytesSource, Chain, Compressions, DeltaFile, FileName, Footer, Frame, StateName, WriterId
}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.DamagedRecordsException
import io.megaphone.log.memory.HeapBudget
import io.megaphone.state.Holding

/** Makes and reads the blocks that carry bins from one executor to another. A block is a delta file
  * in memory.
  *
  *   - An ''image block'' has all records of the moved bins at one name. A target makes a replica
  *     of it.
  *   - A ''tail block'' has the records that one commit appended to them. A target applies it to a
  *     replica at exactly the name that the tail is based on.
  *
  * Both list the chain and the key count of every bin that moves, even of an empty one. So missing
  * is never read as empty, and the target's first commit can list the chain. Losing a block costs
  * time only.
  *
  * Threads: any, except if a method says otherwise.
  */
final class TransferBlocks(compressions: Compressions, budget: HeapBudget = HeapBudget.Unlimited) {

  /** An image block of the bins of a snapshot. */
  def image(snapshot: TransferBlocks.Snapshot): Array[Byte] = {
    val out = new ByteArrayOutputStream(1 << 16)
    val writer = new DeltaFile.Writer(
      out,
      compressions.writer,
      FileName(snapshot.worker, snapshot.name),
      TransferBlocks.NoWriter
    )
    snapshot.bins.foreach(b => writer.frame(b.bin, isImage = true, b.records()))
    writer.finish(frames =>
      footer(snapshot.worker, snapshot.name, snapshot.name, frames, snapshot.bins)
    )
    out.toByteArray
  }

  /** A tail block of bins, of the head that `holding` has just committed. Only with the lease.
    * Throws IllegalStateException if there is no head.
    */
  def tail(holding: Holding, bins: Seq[Int]): Array[Byte] = {
    val name = holding.head.getOrElse(
      throw new IllegalStateException(s"worker ${holding.worker} has no commit to hand over")
    )
    val out = new ByteArrayOutputStream(1 << 12)
    val writer = new DeltaFile.Writer(
      out,
      compressions.writer,
      FileName(holding.worker, name),
      TransferBlocks.NoWriter
    )
    bins.foreach { bin =>
      val log = holding.here(bin)
      if (log.isTouched) writer.tail(bin, log.tail())
    }
    writer.finish(frames =>
      footer(
        holding.worker,
        name,
        holding.base,
        frames,
        bins.map(TransferBlocks.snapshotOf(holding, _))
      )
    )
    out.toByteArray
  }

  /** Makes a replica of an image block. Throws DamagedFileException.
    *
    * @param made
    *   is called with the log of each bin as soon as it is complete
    */
  def replicaOf(
      block: String,
      bytes: Array[Byte],
      binsCount: Int,
      made: BinLog => Unit = _ => ()
  ): Holding = budget.loading { loading =>
    val reader = new DeltaFile.Reader(new BytesSource(block, bytes))
    val footer = reader.footer
    val replica = new Holding(footer.file.worker, binsCount)
    replica.restart(footer.file.name, Vector.empty)
    footer.chains.keys
      .find(!footer.frameOf.contains(_))
      .foreach(bin => throw new DamagedFileException(block, Some(bin), "an image", "none"))
    footer.frames.foreach { frame =>
      val log = loading.add(new BinLog(budget))
      applyFrame(block, reader, frame, log)
      CatchUp.check(block, footer, Map(frame.bin -> log))
      log.settle()
      made(log)
      replica.put(frame.bin, log, footer.chains(frame.bin))
    }
    replica
  }

  /** Applies a tail block to a replica, which no other thread may use meanwhile. Returns false, and
    * changes nothing, if the tail is based on another name or lacks a bin of the replica. Throws
    * DamagedFileException; the replica is then as it was.
    */
  def applyTail(block: String, bytes: Array[Byte], replica: Holding): Boolean = {
    val reader = new DeltaFile.Reader(new BytesSource(block, bytes))
    val footer = reader.footer
    footer.base == replica.base && footer.file.worker == replica.worker && replica.bins.forall(
      footer.chains.contains
    ) && {
      val logs = replica.bins.map(bin => bin -> replica.here(bin)).toMap
      CatchUp.advance(replica, block, footer, logs, footer.chains, Vector.empty) {
        footer.frames.foreach(frame =>
          logs.get(frame.bin).foreach(applyFrame(block, reader, frame, _))
        )
      }
      true
    }
  }

  private def applyFrame(
      block: String,
      reader: DeltaFile.Reader,
      frame: Frame,
      log: BinLog
  ): Unit = {
    val records = reader.records(frame, compressions)
    try log.apply(records, 0, records.length)
    catch {
      case e: DamagedRecordsException =>
        throw new DamagedFileException(block, Some(frame.bin), "whole records", e.damage)
    }
  }

  private def footer(
      worker: Int,
      name: StateName,
      base: StateName,
      frames: Vector[Frame],
      bins: Iterable[TransferBlocks.BinSnapshot]
  ): Footer =
    Footer(
      FileName(worker, name),
      TransferBlocks.NoWriter,
      base,
      0,
      0,
      frames,
      bins.iterator.map(b => b.bin -> b.chain).toMap,
      bins.iterator.map(b => b.bin -> b.keyCount).toMap,
      Vector.empty,
      Vector.empty
    )
}

object TransferBlocks {
  private val NoWriter = WriterId(0, 0)

  /** A bin at one name.
    *
    * @param records
    *   returns the bin's records; any thread may call it, also more than once
    */
  final case class BinSnapshot(bin: Int, chain: Chain, keyCount: Long, records: () => Array[Byte])
  final case class Snapshot(worker: Int, name: StateName, bins: Vector[BinSnapshot])

  /** The settled state of some bins of a holding. Copies no records. Only with the lease, before
    * the batch writes.
    */
  def snapshot(holding: Holding, bins: Iterable[Int]): Snapshot =
    Snapshot(holding.worker, holding.base, bins.iterator.map(snapshotOf(holding, _)).toVector)

  /** The state of some bins at the head of a holding. Copies the records. Only with the lease,
    * after the commit. Throws IllegalStateException if there is no head.
    */
  def headSnapshot(holding: Holding, bins: Iterable[Int]): Snapshot = {
    val name = holding.head.getOrElse(
      throw new IllegalStateException(s"worker ${holding.worker} has no commit to hand over")
    )
    Snapshot(
      holding.worker,
      name,
      bins.iterator.map { bin =>
        val image = holding.here(bin).image()
        snapshotOf(holding, bin).copy(records = () => image)
      }.toVector
    )
  }

  private def snapshotOf(holding: Holding, bin: Int): BinSnapshot = {
    val prefix = holding.here(bin).prefix()
    BinSnapshot(bin, holding.chain(bin), holding.stateOf(bin).keyCount, () => prefix.toBytes)
  }
}
