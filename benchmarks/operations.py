# SPDX-License-Identifier: Apache-2.0
"""Store operations per row, by JMH, on each provider: a JVM for each operation, provider and round.

`python benchmarks/operations.py [--keys 2000000] [--rounds 5] [--only put]`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import harness
from tqdm import tqdm

SBT = Path(__file__).parents[1] / "sbt"
OPERATIONS = ["putNew", "putOverwrite", "get", "remove", "scan"]
PEERS = ["hdfs", "rocksdb"]
Round = dict[str, dict[str, float]]


def measured(keys: int, pattern: str) -> Round:
    """One round: nanoseconds per row, by operation and provider."""
    with tempfile.TemporaryDirectory(prefix="megaphone-bench-") as folder:
        file = Path(folder) / "jmh.json"
        jmh = f"benchmarks/Jmh/run -p keys={keys} -rf json -rff {file} -v SILENT StoreOperations.*{pattern}"
        ended = subprocess.run([str(SBT), jmh], capture_output=True, text=True)
        if ended.returncode != 0 or not file.exists():
            raise RuntimeError(f"JMH failed:\n{ended.stdout[-4000:]}{ended.stderr[-2000:]}")
        found: list[dict[str, Any]] = json.loads(file.read_text())
    result: Round = {}
    for one in found:
        operation = one["benchmark"].rsplit(".", 1)[1]
        result.setdefault(operation, {})[one["params"]["provider"]] = one["primaryMetric"]["score"]
    return result


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of an operation's name")
    arguments = parser.parse_args()
    rounds = [
        measured(arguments.keys, arguments.only)
        for _ in tqdm(range(arguments.rounds), desc="operations", unit="round")
    ]
    operations = [o for o in OPERATIONS if o in rounds[0]]
    lines = ["| operation | ns per row | against HDFS-backed | against RocksDB |", "|---|---|---|---|"]
    for operation in operations:
        of = [r[operation] for r in rounds]
        typical = harness.median_and_spread([r["megaphone"] for r in of])
        against = [harness.median_and_spread(harness.ratios(of, "megaphone", [peer])) for peer in PEERS]
        lines.append(f"| {operation} | {typical} | {' | '.join(against)} |")
    panels = {o: {p: [r[o][p] for r in rounds] for p in ["megaphone", *PEERS]} for o in operations}
    result = {"arguments": vars(arguments), "ns_per_row": rounds}
    harness.save("operations", result, "\n".join(lines) + "\n", harness.dots(panels, "ns per row"))


if __name__ == "__main__":
    main()
