# SPDX-License-Identifier: Apache-2.0
"""The version of the installed package, and so of the jars inside it."""

from importlib.metadata import version

__version__ = version("spark-megaphone")
