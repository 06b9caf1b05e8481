// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import scala.jdk.CollectionConverters._

import org.apache.spark.util.kvstore.{KVStore, KVStoreView}

import io.megaphone.spark.faces.events.MegaphoneEvent

/** What the listener has kept, as facts for the pages.
  *
  * Threads: any.
  */
final class EventStore(store: KVStore) {

  /** Whether no run is known: then there is no tab in the history server. */
  def isEmpty: Boolean = runIds.isEmpty

  /** The ids of all runs, those first that were seen first. */
  def runIds: Vector[String] = {
    val prefix = EventStore.of(MegaphoneEvent.Query, "")
    read(store.view(classOf[Thing]).index("of").first(prefix))(
      _.takeWhile(_.of.startsWith(prefix)).toVector
    ).sortBy(_.place).map(_.of.drop(prefix.length))
  }

  /** All that is known of a run; None if there is no such run. */
  def run(id: String): Option[RunFacts] = {
    def bodies(kind: String) = rows(kind, id).map(_.body)
    rows(MegaphoneEvent.Query, id).headOption.map { query =>
      RunFacts(
        RunFacts.query(id, query.time, query.body),
        rows(MegaphoneEvent.Ended, id).headOption.map(r => RunFacts.end(r.time, r.body)),
        bodies(MegaphoneEvent.State).map(RunFacts.group).sortBy(_.operator),
        bodies(MegaphoneEvent.Plan).map(RunFacts.plan),
        bodies(MegaphoneEvent.Step).map(RunFacts.step),
        bodies(MegaphoneEvent.Recovery).map(RunFacts.recovery),
        bodies(EventStore.Batch).map(RunFacts.batch),
        bodies(MegaphoneEvent.Executors).flatMap(RunFacts.executors)
      )
    }
  }

  def runs: Vector[RunFacts] = runIds.flatMap(run)

  private def rows(kind: String, run: String): Vector[Thing] = {
    val of = EventStore.of(kind, run)
    read(store.view(classOf[Thing]).index("of").first(of).last(of))(_.toVector)
      .sortBy(_.place)
  }

  private def read[A](view: KVStoreView[Thing])(
      f: Iterator[Thing] => A
  ): A = {
    val rows = view.closeableIterator()
    try f(rows.asScala)
    finally rows.close()
  }
}

private object EventStore {

  /** A batch that Spark has reported. */
  val Batch = "batch"

  val Kinds: Set[String] = {
    import MegaphoneEvent._
    Set(Query, State, Plan, Step, Recovery, Executors, Ended)
  }

  def of(kind: String, run: String): String = s"$kind/$run"
}
