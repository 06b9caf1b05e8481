// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import scala.jdk.CollectionConverters._

import org.apache.spark.util.kvstore.KVStore

import io.megaphone.spark.faces.events.MegaphoneEvent

/** What the listener has kept, as facts for the pages. Threads: any. */
final class EventStore(store: KVStore) {

  /** Whether no run is known: then there is no tab in the history server. */
  def isEmpty: Boolean = runIds.isEmpty

  /** The ids of all runs, those first that were seen first. */
  def runIds: Vector[String] = things(MegaphoneEvent.Query, "").map(_.run)

  /** All that is known of a run; None if there is no such run. */
  def run(id: String): Option[RunFacts] = read(id, isWhole = true)

  /** All runs, without their batches, recoveries and executors: for a list. */
  def runs: Vector[RunFacts] = runIds.flatMap(read(_, isWhole = false))

  private def read(id: String, isWhole: Boolean): Option[RunFacts] = {
    def bodies(kind: String) = things(kind, id).map(_.body)
    def more(kind: String) = if (isWhole) bodies(kind) else Vector.empty
    things(MegaphoneEvent.Query, id).find(_.run == id).map { query =>
      RunFacts(
        FactsReader.query(id, query.time, query.body),
        things(MegaphoneEvent.Ended, id).headOption.map(r => FactsReader.end(r.time, r.body)),
        bodies(MegaphoneEvent.State).map(FactsReader.group).sortBy(_.operator),
        bodies(MegaphoneEvent.Plan).map(FactsReader.plan),
        more(MegaphoneEvent.Step).map(FactsReader.step),
        more(MegaphoneEvent.Recovery).map(FactsReader.recovery),
        more(EventStore.Batch).map(FactsReader.batch),
        more(MegaphoneEvent.Executors).flatMap(FactsReader.executors),
        more(MegaphoneEvent.Relocation).map(FactsReader.relocation),
        more(MegaphoneEvent.Loss).map(FactsReader.loss),
        more(MegaphoneEvent.Executors).flatMap(FactsReader.drains),
        more(MegaphoneEvent.Demand).map(FactsReader.demand)
      )
    }
  }

  private def things(kind: String, run: String): Vector[Thing] = {
    val view = store.view(classOf[Thing]).index("place").parent(EventStore.of(kind, run))
    val all = view.closeableIterator()
    try all.asScala.toVector
    finally all.close()
  }
}

private object EventStore {

  /** A batch that Spark has reported. */
  val Batch = "batch"

  val Kinds: Set[String] = {
    import MegaphoneEvent._
    Set(Query, State, Plan, Step, Recovery, Demand, Relocation, Loss, Executors, Ended)
  }

  /** The parent of the things of a kind: queries have one together, so that they can be listed. */
  def of(kind: String, run: String): String =
    if (kind == MegaphoneEvent.Query) kind else s"$kind/$run"
}
