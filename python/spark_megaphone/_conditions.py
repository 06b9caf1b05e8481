# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, by condition; made by io.megaphone.spark.conf.Reference, not by hand."""

from typing import Final

# The SQLSTATE and the sentence of each condition.
CONDITIONS: Final = {
    "BINS_DIFFER": ("22023", "Two routing tables have different numbers of bins."),
    "BINS_NOT_POWER_OF_TWO": ("22023", "The number of bins is not a power of two in the allowed range."),
    "CHECKPOINT_FORMAT_DOWNGRADE": (
        "55000",
        "The checkpoint has format version 2, and the session asks for version 1.",
    ),
    "CONNECT_NOT_SUPPORTED": (
        "0A000",
        "The session or the query belongs to Spark Connect, which cannot reach the plugin yet.",
    ),
    "DAMAGED_FILE": (
        "58030",
        "A file, or a block from another executor, is damaged, truncated or not of this plugin.",
    ),
    "DAMAGED_TABLE": ("58030", "A routing table in the plan log cannot be read."),
    "DUPLICATE_BIN": ("22023", "A step moves the same bin twice."),
    "EMPTY_PLAN": ("22023", "The plan would change nothing."),
    "INVALID_BATCH_SIZE": ("22023", "The number of bins per step of the strategy batched is out of range."),
    "INVALID_CHECKPOINT_FORMAT": ("22023", "The checkpoint format version is neither 1 nor 2."),
    "INVALID_CONFIGURATION": (
        "22022",
        "A configuration key has an invalid value; found when the value was read.",
    ),
    "INVALID_WORKERS": ("22023", "The number of workers is out of range."),
    "JAR_MISSING": (
        "55000",
        "The session was started without the plugin's jar, or the package was built without jars.",
    ),
    "LEASE_LOST": (
        "55006",
        "A newer attempt of the task has taken over the state, so this one must not commit.",
    ),
    "LEASE_TIMEOUT": ("55006", "Another attempt used the same state for longer than the task waits."),
    "MISSING_BIN": (
        "XX000",
        "A worker lacks a bin that the routing table gives to it; it is never taken for empty.",
    ),
    "MISSING_FILE": ("58030", "A state file is missing that a version still to be read needs."),
    "NEWER_FORMAT": ("58030", "A file was written by a later release, and this one cannot read it."),
    "NOT_MOVABLE": ("0A000", "The operator's state is over a single partition, and stays where it is."),
    "NO_BINNED_STATE": ("55000", "The query has no stateful operator, or its state is on another provider."),
    "NO_JAR_FOR_SPARK": ("0A000", "The package has no jar for this version of Spark."),
    "NO_WORKERS_LEFT": ("22023", "All workers are to be emptied, and none is left to take their bins."),
    "OPERATORS_CHANGED": (
        "55000",
        "The stateful operators of the query are not those that wrote the checkpoint.",
    ),
    "OVERLAPPING_PLAN": ("55006", "Another plan for the same bins is still open."),
    "PLAN_CANCELLED": ("57014", "The plan was cancelled; steps that had taken effect stay."),
    "PLAN_FAILED": (
        "55000",
        "The plan is over, and some of its moves were not made; those that were made stay.",
    ),
    "PLAN_LOG_MISMATCH": (
        "58030",
        "The plan log and the state are of different times, so the state is not read.",
    ),
    "PLAN_LOG_MISSING": ("58030", "The checkpoint has batches but no plan log."),
    "PLAN_LOG_NOT_WRITTEN": (
        "58030",
        "A record could not be written to the plan log, or it is unknown whether it was.",
    ),
    "PLAN_TIMEOUT": ("HYT00", "The plan was not done in time; it goes on."),
    "PLUGIN_MISSING": ("55000", "The jar is there, but the session was started without the plugin."),
    "QUERY_NOT_STARTED": ("55000", "The query has not planned a batch with state yet."),
    "QUERY_STOPPED": ("55000", "The query, or its session, is no longer running."),
    "SESSION_ALREADY_RUNNING": (
        "55000",
        "A session without the plugin is already running, and would have been returned instead.",
    ),
    "UNKNOWN_BIN": ("42704", "The query has no such bin."),
    "UNKNOWN_MODE": ("22023", "There is no such transfer mode."),
    "UNKNOWN_OPERATOR": ("42704", "The query has no such stateful operator."),
    "UNKNOWN_PLAN": ("42704", "The query has no such plan."),
    "UNKNOWN_STRATEGY": ("22023", "There is no such strategy."),
    "UNKNOWN_WORKER": ("42704", "The query has no such worker."),
    "UNROUTABLE_GROUP": ("0A000", "Rows of the query cannot be routed to the workers that own their bins."),
    "UNSUPPORTED_OPERATOR": (
        "0A000",
        "A stateful operator of the query does not run on the binned state store yet.",
    ),
    "UNSUPPORTED_REWRITE": ("0A000", "The state of a stopped query cannot be rewritten."),
    "UNSUPPORTED_TRIGGER": (
        "0A000",
        "Continuous processing and real-time mode do not run on the binned state store.",
    ),
    "UNSUPPORTED_UNLOAD_ON_COMMIT": (
        "0A000",
        "The state is to be dropped after each batch, and the binned state store keeps it.",
    ),
    "VERSION_MISMATCH": ("55000", "The jar and the Python package are of different versions."),
    "WORKER_NOT_EMPTY": ("22023", "A step removes a worker that still owns bins."),
    "WRONG_TYPE": ("22023", "An argument has the wrong type, for example a float for a whole number."),
}

# Those that a call of the plugin may be refused with, or fail with.
OF_CALLS: Final = (
    "DUPLICATE_BIN",
    "EMPTY_PLAN",
    "INVALID_BATCH_SIZE",
    "INVALID_CONFIGURATION",
    "INVALID_WORKERS",
    "NOT_MOVABLE",
    "NO_BINNED_STATE",
    "NO_WORKERS_LEFT",
    "OVERLAPPING_PLAN",
    "PLAN_LOG_NOT_WRITTEN",
    "PLUGIN_MISSING",
    "QUERY_NOT_STARTED",
    "QUERY_STOPPED",
    "UNKNOWN_BIN",
    "UNKNOWN_MODE",
    "UNKNOWN_OPERATOR",
    "UNKNOWN_PLAN",
    "UNKNOWN_STRATEGY",
    "UNKNOWN_WORKER",
    "WORKER_NOT_EMPTY",
)
