# SPDX-License-Identifier: Apache-2.0
"""Starts a long run: `make soak`, or `python -m soak --help` in the repository."""

import sys

from soak.main import main

if __name__ == "__main__":
    sys.exit(main())
