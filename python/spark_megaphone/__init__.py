# SPDX-License-Identifier: Apache-2.0
"""Live rescaling of stateful Structured Streaming queries: the Python half of Megaphone for Spark."""

from importlib.metadata import version

__version__ = version("spark-megaphone")

__all__ = ["__version__"]
