// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** What can go wrong, by its stable name.
  *
  * @param sqlState
  *   five characters, as in Spark's own list of SQLSTATEs
  * @param doc
  *   one sentence: what has happened
  */
final case class Condition(name: String, sqlState: String, doc: String)

/** All conditions, each defined once: the reference page and the Python module are generated. Each
  * stands in one list only, by where its reader meets it first.
  */
object Conditions {

  /** What a call may be refused with, or fail with. */
  val ofCalls: Vector[Condition] = Vector(
    Condition("AMBIGUOUS_QUERY", "42704", "More than one query is meant by what was given."),
    Condition(
      "DRAIN_TOO_LATE",
      "55000",
      "The executor gets no more tasks, so it cannot be kept any more."
    ),
    Condition("DUPLICATE_BIN", "22023", "A step moves the same bin twice."),
    Condition("EMPTY_PLAN", "22023", "The plan would change nothing."),
    Condition("EXECUTOR_LEAVING", "55000", "The executor takes no state any more."),
    Condition(
      "INVALID_ARGUMENT",
      "22023",
      "An argument of a procedure is NULL, or is not of the kind that is needed."
    ),
    Condition(
      "INVALID_BATCH_SIZE",
      "22023",
      "The number of bins per step of the strategy `batched` is out of range."
    ),
    Condition(
      "INVALID_CONFIGURATION",
      "22022",
      "A configuration key had an invalid value when it was read."
    ),
    Condition("INVALID_EXECUTORS", "22023", "The number of executors is out of range."),
    Condition("INVALID_TIMEOUT", "22023", "The time that a drain may take is out of range."),
    Condition("INVALID_TOLERANCE", "22023", "The tolerance is out of range."),
    Condition("INVALID_WORKERS", "22023", "The number of workers is out of range."),
    Condition(
      "LAST_EXECUTOR",
      "55000",
      "The executor is the last one that takes state, so it cannot be emptied."
    ),
    Condition(
      "LOADS_NOT_KNOWN",
      "55000",
      "Not every worker has committed a batch since the query was started."
    ),
    Condition(
      "NOT_MOVABLE",
      "0A000",
      "The operator's state is in a single partition, and stays where it is."
    ),
    Condition(
      "NO_BINNED_STATE",
      "55000",
      "The query has no stateful operator, or its state is on another provider."
    ),
    Condition("NO_RELEASE", "0A000", "The application has no executor that can be ended alone."),
    Condition("NO_REPLICAS", "55000", "No executors stand by for the query."),
    Condition("NO_REQUEST", "0A000", "The application cannot ask for executors."),
    Condition(
      "NO_WORKERS_LEFT",
      "22023",
      "All workers are to be emptied, and none is left to take their bins."
    ),
    Condition("OVERLAPPING_PLAN", "55006", "Another plan of the same operators is still open."),
    Condition(
      "PLAN_LOG_NOT_WRITTEN",
      "58030",
      "A record could not be written to the plan log, or it is unknown whether it was."
    ),
    Condition(
      "PLUGIN_MISSING",
      "55000",
      "The session, or the server of Spark Connect, was started without the plugin."
    ),
    Condition("QUERY_NOT_STARTED", "55000", "The query has not planned a batch with state yet."),
    Condition("QUERY_STOPPED", "55000", "The query or its session is no longer running."),
    Condition("UNKNOWN_BIN", "42704", "The query has no such bin."),
    Condition("UNKNOWN_DRAIN", "42704", "The executor is not one that is to be emptied."),
    Condition("UNKNOWN_EXECUTOR", "42704", "The application has no such executor."),
    Condition("UNKNOWN_MODE", "22023", "There is no such transfer mode."),
    Condition("UNKNOWN_OPERATOR", "42704", "The query has no such stateful operator."),
    Condition("UNKNOWN_PLAN", "42704", "The query has no such plan."),
    Condition("UNKNOWN_QUERY", "42704", "No running query has this name or id."),
    Condition("UNKNOWN_RELOCATION", "42704", "The run has no such relocation."),
    Condition("UNKNOWN_STRATEGY", "22023", "There is no such strategy."),
    Condition("UNKNOWN_WORKER", "42704", "The query has no such worker."),
    Condition("WORKER_NOT_EMPTY", "22023", "A step removes a worker that still owns bins.")
  )

  /** What a session may be refused with when it starts. */
  val ofSessions: Vector[Condition] = Vector(
    Condition(
      "JAR_FOR_OTHER_SPARK",
      "0A000",
      "The plugin's jar was built for another minor version of Spark than the one that runs."
    )
  )

  /** What a query may be refused with when it starts, or a batch may fail with. */
  val ofQueries: Vector[Condition] = Vector(
    Condition("BINS_DIFFER", "22023", "Two routing tables have different numbers of bins."),
    Condition(
      "BINS_NOT_POWER_OF_TWO",
      "22023",
      "The number of bins is not a power of two in the allowed range."
    ),
    Condition("BIN_TOO_LARGE", "54000", "The log of a bin is as long as one can be."),
    Condition(
      "CHECKPOINT_FORMAT_DOWNGRADE",
      "55000",
      "The checkpoint has format version 2, and the session asks for version 1."
    ),
    Condition(
      "DAMAGED_FILE",
      "58030",
      "A file, or a block from another executor, is damaged, truncated or not of this plugin."
    ),
    Condition(
      "DAMAGED_RECORDS",
      "58030",
      "Bytes that should be whole records of a log are not."
    ),
    Condition("DAMAGED_TABLE", "58030", "A routing table in the plan log cannot be read."),
    Condition(
      "LEASE_LOST",
      "55006",
      "A newer attempt of the task has taken over the state, so this one must not commit."
    ),
    Condition(
      "LEASE_TIMEOUT",
      "55006",
      "Another attempt used the same state for longer than the task waits."
    ),
    Condition(
      "MISSING_BIN",
      "XX000",
      "A worker lacks a bin that the routing table gives to it; it is never taken for empty."
    ),
    Condition(
      "MISSING_FILE",
      "58030",
      "A state file is missing that a version still to be read needs."
    ),
    Condition(
      "NEWER_FORMAT",
      "58030",
      "A file was written by a later release, and this one cannot read it."
    ),
    Condition(
      "OPERATORS_CHANGED",
      "55000",
      "The stateful operators of the query are not those that wrote the checkpoint."
    ),
    Condition(
      "PLAN_LOG_MISMATCH",
      "58030",
      "The plan log and the state are of different times, so the state is not read."
    ),
    Condition("PLAN_LOG_MISSING", "58030", "The checkpoint has batches but no plan log."),
    Condition(
      "SPILL_NOT_WRITTEN",
      "53100",
      "State that does not fit into memory could not be written to the executor's local disks."
    ),
    Condition(
      "UNROUTABLE_GROUP",
      "0A000",
      "Rows of the query cannot be routed to the workers that own their bins."
    ),
    Condition(
      "UNSUPPORTED_OPERATOR",
      "0A000",
      "A stateful operator of the query does not run on the binned state store yet."
    ),
    Condition("UNSUPPORTED_REWRITE", "0A000", "The state of a stopped query cannot be rewritten."),
    Condition(
      "UNSUPPORTED_TRIGGER",
      "0A000",
      "Continuous processing and real-time mode do not run on the binned state store."
    ),
    Condition(
      "UNSUPPORTED_UNLOAD_ON_COMMIT",
      "0A000",
      "The state is to be dropped after each batch, and the binned state store keeps it."
    )
  )

  /** What the Python package finds by itself, before or after a call: no exception has these. */
  val ofPython: Vector[Condition] = Vector(
    Condition(
      "CONNECT_NOT_SUPPORTED",
      "0A000",
      "The session that is to be prepared is one of Spark Connect, which takes no plugin."
    ),
    Condition(
      "DRAIN_CANCELLED",
      "57014",
      "The executor is not to be emptied any more, or was lost before it was empty."
    ),
    Condition("DRAIN_TIMEOUT", "HYT00", "The executor was not empty in time; its drain goes on."),
    Condition(
      "INVALID_CHECKPOINT_FORMAT",
      "22023",
      "The checkpoint format version is neither 1 nor 2."
    ),
    Condition(
      "JAR_MISSING",
      "55000",
      "The session was started without the plugin's jar, or the package was built without jars."
    ),
    Condition(
      "MATPLOTLIB_MISSING",
      "55000",
      "A picture is drawn with matplotlib, which is not installed."
    ),
    Condition(
      "NO_JAR_FOR_SPARK",
      "0A000",
      "The package has no jar for the Spark version that runs."
    ),
    Condition(
      "PLAN_CANCELLED",
      "57014",
      "The plan was cancelled; steps that had taken effect stay."
    ),
    Condition(
      "PLAN_FAILED",
      "55000",
      "The plan is over, and some of its moves were not made; those that were made stay."
    ),
    Condition("PLAN_TIMEOUT", "HYT00", "The plan was not done in time; it goes on."),
    Condition(
      "RELOCATION_FAILED",
      "55000",
      "A worker did not get to the executor that it was to go to."
    ),
    Condition("RELOCATION_TIMEOUT", "HYT00", "A worker was not there in time; it goes on."),
    Condition(
      "SESSION_ALREADY_RUNNING",
      "55000",
      "A session without the plugin is already running, and `getOrCreate` would return that one."
    ),
    Condition(
      "VERSION_MISMATCH",
      "55000",
      "The jar in the session and the Python package are of different versions."
    ),
    Condition(
      "WRONG_TYPE",
      "22023",
      "An argument has the wrong type, for example a float for a whole number."
    )
  )

  /** All of them, by name. */
  val all: Vector[Condition] = (ofSessions ++ ofCalls ++ ofQueries ++ ofPython).sortBy(_.name)
}
