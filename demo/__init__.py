# SPDX-License-Identifier: Apache-2.0
"""A running query is rescaled, loses an executor, and gives the right answer: `make demo`."""
