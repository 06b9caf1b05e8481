// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.TimeUnit

import scala.annotation.tailrec
import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.checkpoint.Recovery.Located
import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{StoreKey, WorkerId}
import io.megaphone.log.{Due, KeyReader, Survey}
import io.megaphone.pace.Clock
import io.megaphone.plan.Bins
import io.megaphone.state.{DueSubBins, IntSet, Lease, Registry, Remote, ReplicaKey, SubBin}
import io.megaphone.transfer.{Answer, Answering, Heard, Peers, Question}

/** Brings what a task needs of its worker's incomplete bins: rule 34.
  *
  *   1. `want` notes sub-bins that will be needed: the keys of a batch are known before their rows
  *      come to the state (Meces, section 4.3, has to wait record by record).
  *   1. `bring` asks the source of a step for a sub-bin, and for all that are wanted of that
  *      source, in one question; and at once all other sources for what is wanted of them. The
  *      answers are taken in as settled records.
  *   1. `bringDue` asks for the sub-bins that have a row which is due: an operator looks at all
  *      rows to find those, and acts on no other. What is elsewhere then has none.
  *   1. If the source does not answer in time, is slow for too long, or has lost what was exported,
  *      the bins come from the files, whole, at the same name.
  *
  * ''Dies:'' what was brought stays in the holding; another holding asks anew. ''Throws while it
  * takes in:'' part of a sub-bin may be here, so the lease is given up with the holding, and the
  * next attempt begins with files. ''The files are not as was told:'' the same.
  *
  * Threads: one at a time, the task's.
  *
  * @param deadlineMs
  *   how long a source may take for each answer; see `Source` for how long for all of them
  */
final class Fetcher private[runtime] (
    registry: Registry,
    private val store: StoreKey,
    lease: Lease,
    peers: Peers,
    recovery: Recovery,
    arrivals: Arrivals,
    deadlineMs: Long,
    clock: Clock
) {
  import Fetcher._

  private val wanted = mutable.Map.empty[Int, IntSet] // hashes, by bin
  private val sources = mutable.Map.empty[ReplicaKey, Source] // that were asked, by step

  private var reader: () => Option[KeyReader] = () => registry.keyReaderOf(store)
  private var watched = Option.empty[Wanted]
  private var seen = 0 // of those that are watched

  private def holding = lease.holding

  /** Has keys read by what the task knows of its store: what others know may be less. */
  def readBy(make: () => KeyReader): Unit = reader = () => Some(make())

  /** Has the sub-bins of these hashes noted as wanted, as they become known. */
  def watch(wanted: Wanted): Unit = watched = Some(wanted)

  /** Notes that a sub-bin will be needed. */
  def want(bin: Int, hash: Int): Unit = if (lacks(bin, hash)) {
    wanted.getOrElseUpdate(bin, new IntSet).add(hash); ()
  }

  /** Makes sure that a sub-bin is here. Throws what the files throw, DamagedRecordsException and
    * SpillException.
    */
  def bring(bin: Int, hash: Int): Unit =
    for (remote <- remoteOf(bin) if !remote.isHere(hash)) {
      for (known <- watched; more = known.since(seen)) {
        seen += more.length
        more.foreach(h => want(Bins.of(h, holding.binsCount), h))
      }
      // Else each key that was not noted would cost a question.
      val isOneOfMany = watched.exists(_.isFull) && !wanted.get(bin).exists(_.contains(hash))
      if (isOneOfMany) complete(Seq(bin))
      else arrivals.waiting(bringWanted(remote, bin -> hash))
    }

  /** Makes sure that all of some bins is here. Asks for some bins at a time, so that the next
    * answers are made and sent while one is taken in. Throws as `bring` does.
    */
  def complete(bins: Seq[Int]): Unit = arrivals.waiting {
    val asked = mutable.Queue.empty[(Int, Remote, () => Answer)]
    def askFrom(hash: Int, bin: Int): Unit = for (remote <- remoteOf(bin)) {
      val keys = Map(bin -> remote.keys)
      val here = remote.hereFrom(hash)
      val question = Question.Rest(remote.key, remote.name, keys, bin, hash, here)
      asked.enqueue((bin, remote, asking(remote, question)))
    }
    val left = bins.iterator
    while (asked.nonEmpty || left.hasNext)
      if (asked.size < RestsMax && left.hasNext) askFrom(Int.MinValue, left.next())
      else {
        val (bin, remote, answer) = asked.dequeue()
        // If it is complete by now, the source did not answer about another, and files did.
        if (isPartial(bin)) answer() match {
          case Answer.Rest(stretch) =>
            stretch.subBins.foreach(takeIn(bin, _))
            stretch.next match {
              case Some(next) => askFrom(next, bin)
              case None => if (isPartial(bin)) fromFiles(remote)
            }
          case _ => fromFiles(remote)
        }
      }
    bins.foreach(wanted.remove)
  }

  /** Makes sure that all rows that are due are here, with all that their keys have.
    *
    * @param telling
    *   the store of the task whose rows have the times, of the same bins
    * @param opened
    *   another store of the task, if the operator looks into it: for each key that is here if that
    *   store has the times, else for each that is due
    */
  def bringDue(due: Due, telling: Fetcher = this, opened: Option[Fetcher] = None): Unit =
    arrivals.waiting {
      @tailrec
      def go(stopped: Option[(Int, Int)]): Unit = { // at a bin and hash, by the last answer's room
        val open =
          for ((bin, here) <- holding.incomplete if here.mayHave(due))
            yield (bin, here, telling.remoteOf(bin).orElse(here.teller))
        open.headOption match {
          case None =>
          case Some((bin, _, None)) =>
            complete(Seq(bin)) // nobody can say which keys were due
            go(None)
          case Some((_, _, Some(remote))) =>
            val asked = open.collect {
              case (bin, here, Some(teller)) if teller.key == remote.key => (bin, here, teller)
            }
            asked.foreach { case (_, here, teller) => here.teller = Some(teller) }
            val bins = asked.map(_._1)
            val keys = asked.map { case (bin, _, teller) => bin -> teller.keys }.toMap
            val late = due.copy(from = asked.iterator.map(_._2.noneBefore(due.time)).min)
            val from = stopped.collect { case (bin, hash) if bin == bins.head => hash }
            val since = from.getOrElse(Int.MinValue)
            val question = Question.AllDue(remote.key, remote.name, keys, bins, since, late)
            telling.ask(remote, question) match {
              case Answer.AllDue(found) if isOf(found, bins, due) =>
                takeDue(found, due, telling)
                go(found.last.stretch.next.map(found.last.bin -> _))
              case _ if telling.remoteOf(bins.head).isEmpty =>
                complete(bins.take(1))
                go(None)
              case _ =>
                telling.fromFiles(remote)
                go(None)
            }
        }
      }
      go(None)
      opened.foreach(wantOf(due, telling, _))
    }

  /** Has what the operator will look for in another store asked for at once. The rest of this store
    * comes after that of the other: for a key that is here, all of the other store's would be asked
    * for.
    */
  private def wantOf(due: Due, telling: Fetcher, opened: Fetcher): Unit = {
    holding.restAfter = Some(WorkerId(opened.store, opened.holding.worker))
    val bins = holding.bins.filter(opened.remoteOf(_).nonEmpty).toVector
    if (bins.nonEmpty) for (keys <- reader(); bin <- bins) {
      val log = holding.log(bin)
      if (telling eq this) Survey.dueIn(log, keys, due)._1.foreach(opened.want(bin, _))
      else Survey.foreachHash(log, keys)(opened.want(bin, _))
    }
  }

  /** Whether an answer brings the search forward: it may be about another question. */
  private def isOf(found: Vector[DueSubBins], bins: Seq[Int], due: Due) =
    found.nonEmpty && found.map(_.bin) == bins.take(found.size) &&
      found.init.forall(_.stretch.next.isEmpty) && found.forall { some =>
        if (some.stretch.next.isEmpty) some.nextTime > due.until else some.stretch.subBins.nonEmpty
      }

  private def takeDue(found: Vector[DueSubBins], due: Due, telling: Fetcher): Unit = {
    val come = for (some <- found; subBin <- some.stretch.subBins) yield (some.bin, subBin)
    come.foreach { case (bin, subBin) => telling.takeIn(bin, subBin) }
    if (telling ne this) {
      // All are wanted before the first is asked for.
      come.foreach { case (bin, subBin) => want(bin, subBin.hash) }
      for ((bin, subBin) <- come; remote <- remoteOf(bin) if lacks(bin, subBin.hash))
        bringWanted(remote, bin -> subBin.hash)
    }
    // Only now, for this may have ended before.
    for (some <- found if some.stretch.next.isEmpty; remote <- remoteOf(some.bin))
      remote.hasNone(due.time, some.nextTime)
  }

  /** Makes sure that all bins are complete. Throws as `bring` does. */
  def completeAll(): Unit = complete(holding.incomplete.map(_._1))

  private def remoteOf(bin: Int): Option[Remote] = holding.stateOf(bin).elsewhere
  private def lacks(bin: Int, hash: Int) = remoteOf(bin).exists(!_.isHere(hash))
  private def isPartial(bin: Int) = remoteOf(bin).nonEmpty

  /** Asks for what is wanted, of all sources at once, in questions of some thousand sub-bins. The
    * first of `remote` has the one that is needed now.
    */
  private def bringWanted(remote: Remote, now: (Int, Int)): Unit = {
    val others =
      holding.incomplete.collect { case (bin, other) if wanted.contains(bin) => other }
    val sources = (remote +: others).distinctBy(_.key)
    val left = sources.map { source =>
      source -> questionsOf(
        source,
        Option.when(source eq remote)(now),
        Answering.TaskBytes.toLong / sources.size
      )
    }
    @tailrec
    def go(rest: Map[ReplicaKey, Question.SubBins]): Unit = {
      val asked = for {
        (source, questions) <- left
        question <- rest.get(source.key).orElse(questions.nextOption())
      } yield (source, question, asking(source, question))
      val stillRest = asked.flatMap { case (source, question, answer) =>
        answer() match {
          case Answer.SubBins(found) =>
            for ((bin, subBins) <- found; subBin <- subBins) takeIn(bin, subBin)
            val unanswered = restOf(question)
            if (unanswered.forall(_.size < question.size)) unanswered
            else { fromFiles(source); None } // the answer was about others
          case _ => fromFiles(source); None
        }
      }
      if (asked.nonEmpty) go(stillRest.map(question => question.key -> question).toMap)
    }
    go(Map.empty)
  }

  /** What an answer had no room for. */
  private def restOf(question: Question.SubBins): Option[Question.SubBins] = {
    val left = for {
      (bin, hashes) <- question.hashes
      lacking = hashes.filter(lacks(bin, _)) if lacking.nonEmpty
    } yield bin -> lacking
    Option.when(left.nonEmpty)(question.copy(hashes = left))
  }

  /** The questions about what is wanted of a source, each made when it is its turn.
    *
    * @param answerBytes
    *   about how many bytes of records an answer has
    */
  private def questionsOf(
      remote: Remote,
      first: Option[(Int, Int)],
      answerBytes: Long
  ): Iterator[Question.SubBins] = {
    val (ofSource, remotes) = sharing(remote).unzip
    val keys = ofSource.zip(remotes.map(_.keys)).toMap
    // One after the other: there may be a million.
    val all = first.iterator ++ ofSource.iterator.flatMap(bin =>
      wanted.remove(bin).iterator.flatMap(_.iterator.map(bin -> _)).filterNot(first.contains(_))
    )
    val keyBytes = math.max(1L, remote.bytesElsewhere / math.max(1L, remote.keysElsewhere))
    all
      .grouped(math.max(1L, math.min(HashesMax.toLong, answerBytes / keyBytes)).toInt)
      .takeWhile(_ => ofSource.exists(isPartial))
      .map(_.filter { case (bin, hash) => lacks(bin, hash) }.groupMap(_._1)(_._2))
      .filter(_.nonEmpty)
      .map { hashes =>
        for ((bin, asked) <- hashes; of <- remoteOf(bin)) of.asked += asked.size
        Question.SubBins(remote.key, remote.name, keys, hashes.view.mapValues(_.toArray).toVector)
      }
  }

  /** The incomplete bins whose rest the same export has. */
  private def sharing(remote: Remote) = holding.incomplete.filter(_._2.key == remote.key)

  private def ask(remote: Remote, question: Question): Answer = asking(remote, question)()

  /** Begins to ask a source. Returns what waits for its answer. Each answer has the whole deadline:
    * a batch may need more bytes than the link brings in that time. Of a source that has failed, or
    * was slow for too long, nothing more is asked in this batch.
    */
  private def asking(remote: Remote, question: Question): () => Answer = {
    val source = sources.getOrElseUpdate(remote.key, new Source)
    def begin(leftMs: Long): () => Heard = remote.at match {
      case Some(executor) if !source.isGivenUp && leftMs > 0 =>
        peers.asking(question, executor, leftMs)
      case _ => () => Heard.Nothing
    }
    val first = begin(deadlineMs)
    () => {
      // Others may have been waited for meanwhile.
      val since = clock.nanoTime
      def passedMs = TimeUnit.NANOSECONDS.toMillis(clock.nanoTime - since)
      @tailrec
      def last(heard: Heard): Heard = heard match {
        case Heard(Answer.NotYet, _, _) if passedMs < NotYetMaxMs =>
          clock.pause(NotYetMs)
          last(begin(deadlineMs - passedMs)())
        case other => other
      }
      val Heard(answer, bytes, _) = last(first())
      if (bytes > 0) arrivals.questions += 1
      arrivals.bytesFromPeer += bytes
      source.waitedMs += passedMs
      source.worth += bytes.toDouble / Answering.TaskBytes
      if (question.isAnsweredBy(answer, holding.binsCount)) {
        if (question.isInstanceOf[Question.AllDue]) source.worth += 1
        answer
      } else { source.hasFailed = true; Answer.Gone }
    }
  }

  /** What a batch has had of a source. All answers together have one deadline, and one more for
    * each question's worth of bytes that has come: so a link that is just fast enough for each
    * question is waited for, and an executor that takes long for little is not. An answer about
    * what is due is worth one, too: the executor has looked at many keys for the few that it gives.
    */
  private final class Source {
    var hasFailed = false
    var waitedMs = 0L
    var worth = 0.0 // in whole answers

    /** Whether nothing more is asked of it. */
    def isGivenUp: Boolean = hasFailed || waitedMs >= deadlineMs * (1 + worth)
  }

  private def takeIn(bin: Int, subBin: SubBin): Unit = orGiveUp {
    if (holding.takeIn(bin, subBin)) {
      arrivals.subBins += 1
      if (!isPartial(bin)) arrivals.binsFromPeer += 1
    }
  }

  /** Completes all bins that the same export has, from the files of the source. */
  private def fromFiles(remote: Remote): Unit = {
    val ofSource = sharing(remote)
    val located = ofSource.map { case (bin, r) => bin -> Located(r.chain, r.keys) }
    val loaded =
      try recovery.load(located.toMap)
      catch {
        // The offer may have told a wrong number of keys: the next attempt asks for it anew.
        case e: DamagedFileException => lease.abandon(); throw e
      }
    arrivals.count(loaded.traffic)
    arrivals.binsFromCheckpoint += ofSource.size
    orGiveUp {
      lazy val keys = reader()
        .getOrElse(throw new IllegalStateException(s"Nobody told how to read the keys of $store."))
      ofSource.foreach { case (bin, _) =>
        holding.completeFrom(bin, loaded.bins(bin).log, keys)
      }
    }
  }

  private def orGiveUp[A](use: => A): A =
    try use
    catch { case e: Throwable => lease.abandon(); throw e }
}

private object Fetcher {

  /** Sub-bins in one question. */
  private val HashesMax = 4096

  /** Bins of which all is asked for at a time: as many as their answers have, together, the bytes
    * of one about some keys.
    */
  private val RestsMax = 4

  /** How long a task waits until it asks a source again that is not at the name yet, and how long
    * in all: its worker may have no task there.
    */
  private val NotYetMs = 10L
  private val NotYetMaxMs = 1000L
}
