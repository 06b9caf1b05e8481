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

/** Blocks that carry bins from the executor of one worker to that of another: delta files in
  * memory.
  *
  *   - An ''image block'' has the moved bins at one name, whole. A target makes a copy of it.
  *   - A ''tail block'' has what one commit appended to them. A target applies it to a copy at
  *     exactly the name it is based on.
  *
  * Both list the chain and the key count of every bin that moves, touched or empty: missing is
  * never read as empty, and the target's first commit can list the chain. Losing a block costs time
  * only.
  */
final class TransferBlocks(compressions: Compressions, budget: HeapBudget = HeapBudget.Unlimited) {

  /** An image block of bins at the settled name of `holding`. The records are a snapshot (see
    * `snapshot`): any thread may call this at any time.
    */
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

  /** A tail block of bins, of the head that `holding` has just committed. Only with the lease. */
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
    bins.foreach(bin => if (holding.log(bin).isTouched) writer.tail(bin, holding.log(bin).tail()))
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

  /** The copy that an image block makes; `made` is called with each of its bins as soon as that is
    * there. Throws DamagedFileException.
    */
  def replicaOf(
      block: String,
      bytes: Array[Byte],
      binsCount: Int,
      made: BinLog => Unit = _ => ()
  ): Holding = budget.loading { loading =>
    val reader = new DeltaFile.Reader(new BytesSource(block, bytes))
    val footer = reader.footer
    val copy = new Holding(footer.file.worker, binsCount)
    copy.restart(footer.file.name, Vector.empty)
    footer.chains.keys
      .find(!footer.frameOf.contains(_))
      .foreach(bin => throw new DamagedFileException(block, Some(bin), "an image", "none"))
    footer.frames.foreach { frame =>
      val log = loading.add(new BinLog(budget))
      applyFrame(block, reader, frame, log)
      CatchUp.check(block, footer, Map(frame.bin -> log))
      log.settle()
      made(log)
      copy.put(frame.bin, log, footer.chains(frame.bin))
    }
    copy
  }

  /** Applies a tail block to a copy; false, and nothing changed, where it is based on another name
    * or lacks a bin of the copy. Throws DamagedFileException; the copy is then as it was.
    */
  def applyTail(block: String, bytes: Array[Byte], copy: Holding): Boolean = {
    val reader = new DeltaFile.Reader(new BytesSource(block, bytes))
    val footer = reader.footer
    footer.base == copy.base && footer.file.worker == copy.worker && copy.bins.forall(
      footer.chains.contains
    ) && {
      val logs = copy.bins.map(bin => bin -> copy.log(bin)).toMap
      CatchUp.advance(copy, block, footer, logs, footer.chains, Vector.empty) {
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

  /** A bin at a settled name; `records` may be called from any thread, once or more. */
  final case class BinSnapshot(bin: Int, chain: Chain, keyCount: Long, records: () => Array[Byte])
  final case class Snapshot(worker: Int, name: StateName, bins: Vector[BinSnapshot])

  /** Bins of a holding as they are settled; zero copy. Only with the lease, before the batch
    * writes.
    */
  def snapshot(holding: Holding, bins: Iterable[Int]): Snapshot =
    Snapshot(holding.worker, holding.base, bins.iterator.map(snapshotOf(holding, _)).toVector)

  /** Bins of a holding as its head has them, copied. Only with the lease, after the commit. */
  def headSnapshot(holding: Holding, bins: Iterable[Int]): Snapshot = {
    val name = holding.head.getOrElse(
      throw new IllegalStateException(s"worker ${holding.worker} has no commit to hand over")
    )
    Snapshot(
      holding.worker,
      name,
      bins.iterator.map { bin =>
        val image = holding.log(bin).image(); snapshotOf(holding, bin).copy(records = () => image)
      }.toVector
    )
  }

  private def snapshotOf(holding: Holding, bin: Int): BinSnapshot = {
    val log = holding.log(bin)
    val prefix = log.prefix()
    BinSnapshot(bin, holding.chain(bin), log.keyCount.toLong, () => prefix.toBytes)
  }
}
