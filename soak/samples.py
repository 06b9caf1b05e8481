# SPDX-License-Identifier: Apache-2.0
"""What a run measures: memory, threads and files of its processes, blocks, files of checkpoints.

The JVM's own class histogram collects all garbage first, so its sum is the live heap. Samples are
taken between two rounds.
"""

import contextlib
import csv
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from soak.course import Course
from soak.flat import Measure, Series
from soak.fleet import place_of
from testkit.driver_process import DriverProcess
from testkit.remote import RemoteQuery
from testkit.waiting import until

HEAP = Measure("live heap, MiB", 0.10, 3)
# Not those of plans: a plan log has a hundred records and plans before it is trimmed. Nor the
# commits that brought bins, of which a run keeps 20,000.
OBJECTS = Measure("objects of the plugin", 0.20, 500)
PLAN_LOG = Measure("records", 0.0, 110)
THREADS = Measure("threads", 0.15, 8)
OPEN_FILES = Measure("open files", 0.15, 10)
MAPPINGS = Measure("memory mappings", 0.15, 30)
PROCESSES = Measure("processes", 0.15, 3)
BLOCK_BYTES = Measure("blocks in memory, MiB", 0.25, 1)
# How many states there are is up to the dice: they give queries workers and standbys, and each that
# goes elsewhere leaves a state behind, for fifteen batches.
HELD = Measure("blocks, replicas and states for each that a worker or standby is", 0.25, 0.5)
OBJECTS_EACH = Measure("objects of the plugin for each of those that are held", 0.20, 30)
LOCAL_FILES = Measure("local files", 0.25, 100)
FILES = Measure("files", 0.25, 30)
# However many workers there are, and though a bin that is never written keeps its files.
FULLEST = Measure("files in the fullest folder", 0.25, 15)

_ROW = re.compile(r"^ *\d+: +(?P<count>\d+) +(?P<bytes>\d+) +(?P<name>\S+)", re.MULTILINE)
_OURS = ("io.megaphone", "org.apache.spark.sql.megaphone")
_BOUNDED = (
    "io.megaphone.plan.",
    "io.megaphone.checkpoint.planlog.",
    "io.megaphone.runtime.Committed",
    "io.megaphone.runtime.Arrivals",
)
_MIB = 1 << 20
_JCMD_S = 120
_CLEANED_S = 120


class Sampler:
    """Takes samples, and writes them to `samples.csv` and the newest histograms beside it."""

    def __init__(self, folder: Path, course: Course) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.series: dict[tuple[str, Measure], Series] = {}
        self._course = course

    def take(
        self, driver: DriverProcess, watched: str | None, queries: Iterable[RemoteQuery]
    ) -> None:
        """Takes a sample of everything, which counts once driver and executor have settled.

        An executor is only measured once it is watched. Spark cleans up behind what is garbage
        first; what it cannot clean up behind in time counts.
        """
        jcmd(driver.jvm, "GC.run")
        with contextlib.suppress(TimeoutError):
            until(lambda: driver.call("uncleaned") == 0, "Spark has cleaned up", _CLEANED_S)
        now = dict(self._all(driver, watched, queries))
        at, share = self._course.elapsed_s, self._course.settled_share
        with (self.folder / "samples.csv").open("a", newline="") as file:
            for (where, measure), value in now.items():
                if share is not None:
                    self.series.setdefault((where, measure), Series(measure)).add(share, value)
                csv.writer(file).writerow([f"{at:.1f}", where, measure.name, f"{value:.3f}"])

    def _all(
        self, driver: DriverProcess, watched: str | None, queries: Iterable[RemoteQuery]
    ) -> Iterator[tuple[tuple[str, Measure], float]]:
        executors = driver.executors()
        of_driver = self._histogram("driver", driver.jvm)
        yield ("driver", OBJECTS), of_driver.objects_of_plugin
        yield from _of_process("driver", driver.jvm, of_driver)
        of_executors = {e: self._histogram(f"executor-{e}", p) for e, p in executors.items()}
        if watched is not None:
            yield from _of_process("executor", executors[watched], of_executors[watched])
        yield ("all", PROCESSES), driver.processes_count()
        yield ("all", BLOCK_BYTES), driver.call("stored_bytes") / _MIB
        rows = driver.call("held")
        held = sum(row[kind] for row in rows for kind in ("workers", "replicas", "blocks"))
        yield ("executors", HELD), held / max(1, sum(map(_states, queries)))
        together = sum(each.objects_of_plugin for each in of_executors.values())
        yield ("executors", OBJECTS_EACH), together / max(1, held)
        folders = [driver.folder / "local", *map(_local_folder, executors.values())]
        yield ("all", LOCAL_FILES), sum(_blocks_on_disk(folder) for folder in folders)
        for query in queries:
            place = place_of(query)
            yield (f"state of {place}", FULLEST), _fullest(query.checkpoint / "state")
            log = query.checkpoint / "megaphone"
            if log.exists():
                yield (f"plan log of {place}", PLAN_LOG), _files(log)
            others = _files(query.checkpoint) - _files(query.checkpoint / "state") - _files(log)
            yield (f"Spark's logs of {place}", FILES), others

    def _histogram(self, name: str, process: int) -> "_Histogram":
        text = jcmd(process, "GC.class_histogram")
        (self.folder / f"{name}-{self._course.share:.2f}.txt").write_text(text)
        return _Histogram(text)


class _Histogram:
    """The live objects of a JVM, by class."""

    def __init__(self, text: str) -> None:
        rows = [(int(r["count"]), int(r["bytes"]), r["name"]) for r in _ROW.finditer(text)]
        ours = [row for row in rows if row[2].startswith(_OURS) and not row[2].startswith(_BOUNDED)]
        self.heap_bytes = sum(size for _, size, _ in rows)
        self.objects_of_plugin = sum(count for count, _, _ in ours)


def _of_process(
    name: str, process: int, histogram: _Histogram
) -> Iterator[tuple[tuple[str, Measure], float]]:
    yield (name, HEAP), histogram.heap_bytes / _MIB
    proc = Path("/proc") / str(process)
    status = (proc / "status").read_text()
    yield (name, THREADS), int(status.split("Threads:")[1].split()[0])
    yield (name, OPEN_FILES), len(os.listdir(proc / "fd"))  # noqa: PTH208 (names are enough)
    yield (name, MAPPINGS), len((proc / "maps").read_text().splitlines())


def _states(query: RemoteQuery) -> int:
    """How many states the workers of a query and their standbys are, store by store."""
    if not (query.checkpoint / "megaphone").exists():
        return 0  # another provider has its state
    return sum(
        (1 + row["standbys"]) * _stores(query.checkpoint / "state" / str(row["operator"]))
        for row in query.table("workers")
    )


def _stores(operator: Path) -> int:
    """How many stores an operator has. One that is alone has no folder of its own."""
    return max(1, sum(each.is_dir() for each in operator.glob("0/*")))


def jcmd(process: int, *command: str) -> str:
    """What a JVM answers to a diagnostic command."""
    ran = subprocess.run(
        ["jcmd", str(process), *command], capture_output=True, text=True, timeout=_JCMD_S
    )
    return ran.stdout + ran.stderr


def _local_folder(executor: int) -> Path:
    """Where an executor process keeps its blocks: its worker has told it so."""
    environment = (Path("/proc") / str(executor) / "environ").read_text().split("\0")
    for entry in environment:
        if entry.startswith("SPARK_EXECUTOR_DIRS="):
            return Path(entry.partition("=")[2].split(os.pathsep)[0])
    raise LookupError(f"Executor process {executor} has no SPARK_EXECUTOR_DIRS.")


def _blocks_on_disk(folder: Path) -> int:
    """Files of the newest block manager in a folder: those before it are of the dead."""
    managers = sorted(folder.glob("blockmgr-*"), key=lambda each: each.stat().st_mtime)
    return _files(managers[-1]) if managers else 0


def _fullest(folder: Path) -> int:
    """How many files the folder with the most of them has."""
    return max((len(names) for _, _, names in os.walk(folder)), default=0)


def _files(folder: Path) -> int:
    """How many files are in a folder, while others come and go."""
    return sum(len(names) for _, _, names in os.walk(folder))
