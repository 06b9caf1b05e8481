# SPDX-License-Identifier: Apache-2.0
"""The Arrow schemas of all tables; made by io.megaphone.spark.conf.Reference, not by hand."""

import pyarrow as pa

# A row for each running query that has its state in bins.
QUERIES = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("operators", pa.int32(), nullable=False),
        pa.field("workers", pa.int32(), nullable=False),
        pa.field("bins", pa.int32(), nullable=False),
        pa.field("last_batch", pa.int64()),
        pa.field("open_plan", pa.string()),
    ]
)

# A row for each worker of each group of operators.
WORKERS = pa.schema(
    [
        pa.field("operator", pa.int64(), nullable=False),
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("executor", pa.string()),
        pa.field("bins", pa.int32(), nullable=False),
        pa.field("keys", pa.int64(), nullable=False),
        pa.field("last_batch", pa.int64()),
    ]
)

# A row for each bin of each group of operators.
BINS = pa.schema(
    [
        pa.field("operator", pa.int64(), nullable=False),
        pa.field("bin", pa.int32(), nullable=False),
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("executor", pa.string()),
    ]
)

# A row for each plan of the checkpoint, in the order of submission.
PLANS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("mode", pa.string(), nullable=False),
        pa.field("operators", pa.list_(pa.int64()), nullable=False),
        pa.field("steps", pa.int32(), nullable=False),
        pa.field("steps_done", pa.int32(), nullable=False),
        pa.field("moves", pa.int32(), nullable=False),
        pa.field("moves_done", pa.int32(), nullable=False),
        pa.field("batches", pa.list_(pa.int64()), nullable=False),
        pa.field("reason", pa.string()),
    ]
)

# A row for each step of a plan: by group of operators, then in the order of the steps.
STEPS = pa.schema(
    [
        pa.field("operator", pa.int64(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("bins", pa.list_(pa.int32()), nullable=False),
        pa.field("targets", pa.list_(pa.int32()), nullable=False),
        pa.field("workers", pa.int32(), nullable=False),
        pa.field("batch", pa.int64()),
        pa.field("stayed", pa.list_(pa.int32()), nullable=False),
    ]
)

# A row for each batch, store and worker that bins moved into, or that was recovered; the newest of
# this run.
MIGRATIONS = pa.schema(
    [
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("operator", pa.int64(), nullable=False),
        pa.field("store", pa.string(), nullable=False),
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("executor", pa.string(), nullable=False),
        pa.field("bins_in", pa.int32(), nullable=False),
        pa.field("bins_relabelled", pa.int32(), nullable=False),
        pa.field("bins_from_peer", pa.int32(), nullable=False),
        pa.field("bins_from_checkpoint", pa.int32(), nullable=False),
        pa.field("bytes_from_peer", pa.int64(), nullable=False),
        pa.field("bytes_from_checkpoint", pa.int64(), nullable=False),
        pa.field("wait_ms", pa.int64(), nullable=False),
        pa.field("is_recovery", pa.bool_(), nullable=False),
    ]
)

# A row for each executor that has reported: what it keeps for all queries.
EXECUTORS = pa.schema(
    [
        pa.field("executor", pa.string(), nullable=False),
        pa.field("workers", pa.int32(), nullable=False),
        pa.field("replicas", pa.int32(), nullable=False),
        pa.field("blocks", pa.int32(), nullable=False),
    ]
)
