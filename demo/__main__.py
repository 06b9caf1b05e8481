# SPDX-License-Identifier: Apache-2.0
"""Starts the demo: `make demo`, or `python -m demo --help` in the repository."""

import sys

from demo.main import main

if __name__ == "__main__":
    sys.exit(main())
