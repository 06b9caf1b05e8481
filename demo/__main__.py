# SPDX-License-Identifier: Apache-2.0
"""Starts the demo: `make demo`, or `python -m demo --help` in the repository."""

import sys
from pathlib import Path

# The cluster on this machine is the integration tests' too.
sys.path.append(str(Path(__file__).resolve().parents[1] / "integration-tests"))

if __name__ == "__main__":
    from demo.main import main

    sys.exit(main())
