# SPDX-License-Identifier: Apache-2.0
"""Arms fault points, one at a time, and reports whom they struck.

A jar of the tests brings them.
"""

import errno
import os
from pathlib import Path

from testkit.waiting import until

EXECUTOR_POINTS = (
    "source-publishing",
    "source-published",
    "target-pulling",
    "target-prepared",
    "step-opening",
    "step-opened",
    "step-committing",
    "step-committed",
    "standby-kept",
)
# Of a worker's batch on an executor that stands by for it.
STANDBY_POINTS = ("standby-opening", "standby-committed")
# Of a step on demand, on the target's executor, and on the source's.
DEMAND_POINTS = ("question-asked", "rest-asked")
LENDER_POINTS = ("question-answering",)
USELESS = ("lost", "damaged", "cut")
DRIVER_POINTS = ("driver-sealing", "driver-sealed", "driver-settled")
FILE_OPERATIONS = ("mkdirs", "create", "rename", "list", "open")
ENTRIES = (
    *EXECUTOR_POINTS,
    *STANDBY_POINTS,
    *DEMAND_POINTS,
    *LENDER_POINTS,
    *DRIVER_POINTS,
    *(f"{point}=pause" for point in (*DRIVER_POINTS, *STANDBY_POINTS, "standby-kept")),
    "block-published=lost",
    "block-published=damaged",
    "block-published=cut",
    "block-pulled=late",
    "file-pushed=hang",
    *(
        f"{what}={how}"
        for what in ("file-pushed", "question-sent", "answer-came")
        for how in USELESS
    ),
    *(
        f"{who}-{what}={how}"
        for who in ("driver", "executor")
        for what in FILE_OPERATIONS
        for how in ("fail", "hang", "deny")
    ),
)
# Paths of this scheme are local, and their operations fail, hang or are denied at the fault points.
FAILING = {"spark.hadoop.fs.failing.impl": "io.megaphone.spark.faults.FailingFileSystem"}
# Paths of this scheme are local, and open to those whose configuration has the secret.
GUARDED = {
    "spark.hadoop.fs.guarded.impl": "io.megaphone.spark.faults.GuardedFileSystem",
    "spark.hadoop.fs.guarded.impl.disable.cache": "true",
}
SECRET = {"fs.guarded.secret": "open"}


# The plugin's own jar has nothing that kills, pauses or damages.
JAR = Path(__file__).parents[1] / "jvm/spark/target/spark-4.2/spark-megaphone-faults.jar"


class Faults:
    """The fault points of one or more drivers.

    A point is armed as long as its marker file is not there.
    """

    def __init__(self, folder: Path) -> None:
        assert JAR.exists(), f"{JAR} is missing; `make faults-jar` builds it"
        folder.mkdir(parents=True)
        self.folder = folder
        self.settings = {
            "spark.megaphonetest.faults": ",".join(ENTRIES),
            "spark.megaphonetest.faultsFolder": str(folder),
            "spark.jars": str(JAR),
        }
        for entry in ENTRIES:
            self.disarm(entry)
            if entry.endswith("=hang"):
                os.mkfifo(self._gate(entry))

    def arm(self, entry: str) -> None:
        (self.folder / entry).unlink()

    def disarm(self, entry: str) -> None:
        (self.folder / entry).touch()

    def release(self, entry: str) -> None:
        """Lets the process go on that hangs at an entry."""

        def is_heard() -> bool:
            try:
                os.close(os.open(self._gate(entry), os.O_WRONLY | os.O_NONBLOCK))
            except OSError as nobody:
                if nobody.errno != errno.ENXIO:
                    raise
                return False
            return True

        until(is_heard, f"somebody hangs at {entry}")

    def _gate(self, entry: str) -> Path:
        return self.folder / f"{entry}.gate"

    def struck(self, entry: str) -> str | None:
        """Id of the executor it struck, or `driver`; None as long as it has struck nobody."""
        marker = self.folder / entry
        return (marker.read_text() or None) if marker.exists() else None

    def wait(self, entry: str, seconds: float = 120) -> str:
        """Waits until it has struck; whom."""
        until(lambda: self.struck(entry) is not None, f"{entry} strikes", seconds)
        return str(self.struck(entry))
