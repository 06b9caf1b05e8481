# SPDX-License-Identifier: Apache-2.0
"""Store operations per row, by JMH, on each provider: a JVM for each operation, provider and round.

`python benchmarks/operations.py [--only get remove] [--keys 2000000] [--rounds 5]`

The result of some operations alone stands beside that of all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
from tqdm import tqdm

SBT = Path(__file__).parents[1] / "sbt"
PEERS = harness.PEERS
# With the peers that can do it: a hash map has no order, and one value to a key.
OPERATIONS = {
    "putNew": PEERS,
    "putOverwrite": PEERS,
    "get": PEERS,
    "remove": PEERS,
    "scan": PEERS,
    "putAndCommit": PEERS,
    "putCommitAndMaintain": PEERS,
    "putCommitAndOpen": PEERS,
    "evictAll": PEERS,
    "evictNone": PEERS,
    "prefixScan": PEERS,
    "rangeScan": ["rocksdb"],
    "merge": ["rocksdb"],
}
Round = dict[str, dict[str, float]]


def jmh_arguments(names: Sequence[str], providers: Sequence[str], keys: int, to: Path) -> list[str]:
    """What JMH is told to measure some operations and to write what it found to a file."""
    return [
        *("-p", f"provider={','.join(providers)}", "-p", f"keys={keys}", "-foe", "true"),
        *("-rf", "json", "-rff", str(to), "-v", "SILENT", f"\\.({'|'.join(names)})$"),
    ]


def scores(files: Sequence[Path]) -> Round:
    """Nanoseconds per row, by operation and provider, of the files that JMH wrote."""
    found: list[dict[str, Any]] = [one for file in files for one in json.loads(file.read_text())]
    result: Round = {}
    for one in found:
        operation = one["benchmark"].rsplit(".", 1)[1]
        result.setdefault(operation, {})[one["params"]["provider"]] = one["primaryMetric"]["score"]
    return result


def measured(operations: Sequence[str], keys: int) -> Round:
    """One round: nanoseconds per row, by operation and provider."""
    with tempfile.TemporaryDirectory(prefix="megaphone-bench-") as folder:
        files: list[Path] = []
        commands: list[str] = []
        for peers in (PEERS, ["rocksdb"]):
            names = [o for o in operations if OPERATIONS[o] == peers]
            if names:
                files.append(Path(folder) / f"{len(files)}.json")
                arguments = jmh_arguments(names, ["megaphone", *peers], keys, files[-1])
                commands.append(" ".join(["benchmarks/Jmh/run", *arguments]))
        ended = subprocess.run([str(SBT), *commands], capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"JMH failed:\n{ended.stdout[-4000:]}{ended.stderr[-2000:]}")
        return scores(files)


def main() -> None:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keys", type=int, default=2_000_000, help="of the operations on single keys"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    arguments = parser.parse_args()
    rounds = [
        measured(arguments.only, arguments.keys)
        for _ in tqdm(range(arguments.rounds), desc="operations", unit="round")
    ]
    lines = [
        "| operation | ns per row | against HDFS-backed | against RocksDB |",
        "|---|---|---|---|",
    ]
    for operation in arguments.only:
        of = [r[operation] for r in rounds]
        typical = harness.median_and_spread([r["megaphone"] for r in of])
        against = [
            harness.median_and_spread(harness.ratios(of, "megaphone", [peer]))
            if peer in of[0]
            else "-"
            for peer in PEERS
        ]
        lines.append(f"| {operation} | {typical} | {' | '.join(against)} |")
    panels = {o: {p: [r[o][p] for r in rounds] for p in rounds[0][o]} for o in arguments.only}
    result = {"arguments": vars(arguments), "ns_per_row": rounds}
    is_whole = set(arguments.only) == set(OPERATIONS)
    name = "operations" if is_whole else "-".join(["operations", *arguments.only])
    harness.save(name, result, "\n".join(lines) + "\n", harness.dots(panels, "ns per row"))


if __name__ == "__main__":
    main()
