# SPDX-License-Identifier: Apache-2.0
"""A running query is rescaled, loses and gains executors, and is right: `make demo`."""
