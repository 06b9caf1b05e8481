# SPDX-License-Identifier: Apache-2.0
"""The tables that a handle gives: fixed schemas, also where there is no row."""

from typing import Any

import pyarrow as pa

BINS = pa.schema(
    [
        pa.field("operator", pa.int64(), nullable=False),
        pa.field("bin", pa.int32(), nullable=False),
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("executor", pa.string()),
    ]
)

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


def table_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """The rows as a table of the schema; what the schema does not name is left out."""
    return pa.Table.from_pylist(rows, schema=schema)
