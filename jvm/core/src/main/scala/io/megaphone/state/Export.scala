// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util
import java.util.NoSuchElementException

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import io.megaphone.format.StateName
import io.megaphone.log.{BinLog, Due, KeyReader, Survey}
import io.megaphone.log.memory.HeapBudget
import io.megaphone.plan.Bins

/** What a step on demand takes from a worker, as it was at `name`, kept for who asks: all sub-bins
  * of the bins that were lent to it. Nobody writes to these logs any more.
  *
  * It keeps nothing about who has asked for what, so a question may be lost, doubled or late, or
  * asked by two attempts of a task.
  *
  * Threads: any.
  *
  * @param keys
  *   reads the keys of the store's logs
  * @param drafts
  *   surveys of bins that were begun ahead
  */
final class Export(
    val name: StateName,
    binsCount: Int,
    keys: KeyReader,
    drafts: Map[Int, Survey.Draft] = Map.empty
) extends HeapBudget.User {
  // Tasks and the memory budget ask what there is, and are not to wait for who looks at records.
  private val lent = TrieMap.empty[Int, BinLog]
  private val surveys = mutable.Map.empty[Int, Survey]
  private var lastDue = Option.empty[(Int, Due, (Array[Int], Long))] // of the last bin looked at
  @volatile private var ownBytes = 0L // of the surveys

  /** Adds bins. Called twice: nothing happens. */
  def add(bins: Iterable[(Int, BinLog)]): Unit = { lent ++= bins; () }

  def has(bin: Int): Boolean = lent.contains(bin)

  /** How many keys a bin that was lent has. */
  def keysOf(bin: Int): Long = lent(bin).keyCount.toLong

  /** Some sub-bins, by bin, in this order; also those that have no record. About as many as have
    * `bytes` of records, one at least, so the last ones may be missing. Returns None if a bin
    * cannot be given in sub-bins.
    */
  def subBins(
      hashes: Seq[(Int, Array[Int])],
      bytes: Int
  ): Option[Vector[(Int, Vector[SubBin])]] = synchronized {
    var left = bytes.toLong
    val found = hashes.iterator
      .takeWhile(_ => left > 0)
      .map { case (bin, wanted) =>
        surveyOf(bin).map { survey =>
          val some = stretch(survey, left)(f => { wanted.forall(f); () })
          left -= some.bytes
          bin -> some.subBins
        }
      }
      .toVector
    Option.when(found.forall(_.isDefined))(found.flatten)
  }

  /** The sub-bins of a bin from a hash on, ascending: about as many as have `bytes` of records, one
    * at least. Returns None if the bin cannot be given in sub-bins.
    *
    * @param except
    *   hashes of sub-bins to leave out, ascending
    */
  def from(bin: Int, hash: Int, except: Array[Int], bytes: Int): Option[Stretch] = synchronized {
    surveyOf(bin).map { survey =>
      stretch(survey, bytes) { f =>
        survey.foreachFrom(hash)(h => util.Arrays.binarySearch(except, h) >= 0 || f(h))
      }
    }
  }

  /** The sub-bins that have a row which is due: of some bins in this order, in the first one from a
    * hash on, ascending. About as many as have `bytes` of records, one at least, and not many more
    * than `looks` keys are looked at, so the last bins may be missing. Returns None if a bin cannot
    * be given in sub-bins.
    */
  def due(bins: Seq[Int], from: Int, by: Due, bytes: Int, looks: Int): Option[Vector[DueSubBins]] =
    synchronized {
      var left = bytes.toLong
      var looksLeft = looks.toLong
      val found = bins.iterator
        .takeWhile(_ => left > 0 && looksLeft > 0)
        .map { bin =>
          surveyOf(bin).map { survey =>
            val (hashes, nextTime) = dueIn(bin, survey, by)
            val asked = if (bin == bins.head) hashes.dropWhile(_ < from) else hashes
            val some = stretch(survey, left)(f => { asked.forall(f); () })
            left -= some.bytes
            looksLeft -= lent(bin).keyCount
            DueSubBins(bin, some, nextTime)
          }
        }
        .toVector
      Option.when(found.forall(_.isDefined))(found.flatten)
    }

  /** What is due in a bin; a bin with more than an answer has room for is looked at once. */
  private def dueIn(bin: Int, survey: Survey, by: Due): (Array[Int], Long) = {
    val isKnown = lastDue.exists { case (of, asked, _) =>
      of == bin && asked.time == by.time && asked.until == by.until && asked.from <= by.from
    }
    if (!isKnown) lastDue = Some((bin, by, survey.due(by)))
    lastDue.get._3
  }

  /** The sub-bins of these hashes, as long as they have fewer than `bytes` of records. */
  private def stretch(survey: Survey, bytes: Long)(foreach: (Int => Boolean) => Unit): Stretch = {
    val found = Vector.newBuilder[SubBin]
    var left = bytes
    var next = Option.empty[Int]
    foreach { hash =>
      if (left <= 0) next = Some(hash)
      else {
        val subBin = SubBin(hash, survey.bytesOf(hash))
        left -= subBin.records.length
        found += subBin
      }
      next.isEmpty
    }
    Stretch(found.result(), next)
  }

  /** Heap bytes of the surveys: the logs count where they are, or with who keeps the export. */
  override def heapBytes: Long = ownBytes

  /** Heap bytes of the logs that a holding has no longer. */
  def heapBytesBeside(holding: Option[Holding]): Long = lent.iterator.collect {
    case (bin, log) if !holding.exists(_.logOrNull(bin) eq log) => log.heapBytes
  }.sum

  /** None if a key leads to another bin than it lies in: who finds its hash is then wrong about the
    * others, too, and what is not sent would be lost.
    */
  private def surveyOf(bin: Int): Option[Survey] =
    surveys.get(bin).orElse {
      for {
        log <- lent.get(bin)
        made <-
          try Some(Survey.of(log, keys, drafts.get(bin)))
          catch { case _: NoSuchElementException => None }
        if made.areAll(h => Bins.of(h, binsCount) == bin)
      } yield { surveys(bin) = made; ownBytes += made.heapBytes; made }
    }
}

/** The records of one sub-bin, back to back, each value in one record. */
final case class SubBin(hash: Int, records: Array[Byte])

/** Sub-bins in the order of their hashes.
  *
  * @param next
  *   the hash of the one behind them; None if these are the last
  */
final case class Stretch(subBins: Vector[SubBin], next: Option[Int]) {

  /** Bytes of the records. */
  def bytes: Long = subBins.iterator.map(_.records.length.toLong).sum
}

/** The sub-bins of a bin that have a row which is due.
  *
  * @param nextTime
  *   no other row of the bin is due before this time
  */
final case class DueSubBins(bin: Int, stretch: Stretch, nextTime: Long)
