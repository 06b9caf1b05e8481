# SPDX-License-Identifier: Apache-2.0
"""The configuration keys and what may stand in them; made by io.megaphone.spark.conf.Reference, not by hand."""

from typing import Final

# Bins that a new query's keyed state is split into: a power of two from 1 to 65536. Fixed for the life of
# the checkpoint. Default `1024`; read when a query starts.
BINS: Final = "spark.megaphone.bins"

# When the bytes of a moving bin travel: `prepared` (ahead of the step) or `direct` (at the step). Default
# `prepared`; read when a plan is submitted.
TRANSFER_MODE: Final = "spark.megaphone.transfer.mode"

# How moves are grouped in steps: `all-at-once`, `fluid`, `batched`, `batched(k)` or `optimized`. Default
# `batched`; read when a plan is submitted.
STRATEGY: Final = "spark.megaphone.strategy"

# Batches after which a step that could not be prepared goes on from the checkpoint. Default `10`; read when
# a query starts.
TRANSFER_PATIENCE_BATCHES: Final = "spark.megaphone.transfer.patienceBatches"

# Steps of a plan that are prepared at once. Default `4`; read when a query starts.
TRANSFER_WINDOW_STEPS: Final = "spark.megaphone.transfer.windowSteps"

# Time that a batch waits for the last tail from another executor before it reads the file. Default `1000`;
# read when a query starts.
TRANSFER_TAIL_DEADLINE_MS: Final = "spark.megaphone.transfer.tailDeadlineMs"

# Time that a batch in mode `direct`, or a preparation, waits for an image from another executor before it
# reads files. Default `30000`; read when a query starts.
TRANSFER_IMAGE_DEADLINE_MS: Final = "spark.megaphone.transfer.imageDeadlineMs"

# Time that a task waits for another living attempt that uses the same state. Default `60000`; read when a
# query starts.
LEASE_TIMEOUT_MS: Final = "spark.megaphone.lease.timeoutMs"

# Batches between two looks for files that no retained version needs. Default `50`; read when a query
# starts.
SWEEP_INTERVAL_BATCHES: Final = "spark.megaphone.sweep.intervalBatches"

# Frames (the changes of a batch) of a bin from which on it is written whole, a few bins a batch. A recovery
# reads at most twice as many of a bin. Default `32`; read when a query starts.
RECOVERY_FRAMES_MAX: Final = "spark.megaphone.recovery.framesMax"

# Heap that state may take on an executor, as a share of all of it or a size (`8g`). Beyond that, state lies
# on the executor's local disks (`spark.local.dir`). Default `40%`; read when the application starts.
MEMORY_BUDGET: Final = "spark.megaphone.memory.budget"

# What each key stands for where it is not set.
DEFAULTS: Final = {
    BINS: "1024",
    TRANSFER_MODE: "prepared",
    STRATEGY: "batched",
    TRANSFER_PATIENCE_BATCHES: "10",
    TRANSFER_WINDOW_STEPS: "4",
    TRANSFER_TAIL_DEADLINE_MS: "1000",
    TRANSFER_IMAGE_DEADLINE_MS: "30000",
    LEASE_TIMEOUT_MS: "60000",
    SWEEP_INTERVAL_BATCHES: "50",
    RECOVERY_FRAMES_MAX: "32",
    MEMORY_BUDGET: "40%",
}

# What the plugin reads for TRANSFER_MODE and STRATEGY, in any case.
MODES: Final = ("direct", "prepared")
STRATEGIES: Final = ("all-at-once", "fluid", "batched", "batched(<bins per step>)", "optimized")

# The most bins and the most workers that a query can have.
BINS_MAX: Final = 65536
WORKERS_MAX: Final = 65536
