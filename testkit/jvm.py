# SPDX-License-Identifier: Apache-2.0
"""How the tests start their JVMs.

Each lives for seconds, so what counts is the time until it works.

1. Spark's classes come from an archive (class data sharing) that is made once, by running this
   file: a JVM maps it instead of reading and checking ten thousand class files. If the process dies
   meanwhile, there is no archive, for it gets its name when it is whole. A JVM that cannot use an
   archive goes on without it: so the class path begins with Spark's classes, and ends with others.
2. Each line of code runs a few times: the compiler that makes the fastest code would take half of
   the time.
3. Spark allocates blocks of megabytes for each batch, and the default collector starts a cycle for
   each.
"""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
_MADE = Path(__file__).parents[1] / "target" / "python-tests" / f"spark-{pyspark.__version__}"
# The class path must begin in the tests as it was when the archive was made, whatever SPARK_HOME
# is.
CLASS_PATHS = dict.fromkeys(
    ("spark.driver.extraClassPath", "spark.executor.extraClassPath"),
    f"{Path(pyspark.__file__).parent}/jars/*",
)
_MAKE_SECONDS = 300


def settings(java_options: str = "") -> dict[str, str]:
    """Spark settings for driver and executors that start fast; `environment` belongs to them."""
    # A word about an archive that does not fit must not get among what the processes print.
    fast = f"{SHORT_LIVED} -XX:SharedArchiveFile={_archive()} -Xlog:disable {java_options}"
    return _of_jvms(fast)


def environment(classes: str = "") -> dict[str, str]:
    """What a driver's environment must have: the configuration's folder is in the class path.

    Args:
        classes: What ends the class path of the driver and its executors.
    """
    folder = _MADE / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    home = spark_home(_MADE / "home")
    return {
        "SPARK_CONF_DIR": str(folder),
        "SPARK_DIST_CLASSPATH": classes,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def spark_home(folder: Path) -> Path:
    """A Spark home of the caller's own, of links: a cluster leaves its work under it."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        # Whoever ran a cluster without a home of its own has left a `work` there.
        if part.name != "work" and not (folder / part.name).is_symlink():
            (folder / part.name).symlink_to(part)
    return folder


def _of_jvms(options: str) -> dict[str, str]:
    processes = ("driver", "executor")
    return CLASS_PATHS | {f"spark.{process}.extraJavaOptions": options for process in processes}


@functools.cache
def _archive() -> Path:
    archive = _MADE / "classes.jsa"
    if not archive.exists():
        command = [sys.executable, __file__, str(archive)]
        subprocess.run(command, env=os.environ | environment(), timeout=_MAKE_SECONDS, check=True)
    return archive


def _make(archive: Path) -> None:
    """Runs a stateful query, and keeps the classes that it took."""
    from pyspark.sql import SparkSession

    whole = archive.with_suffix(f".{os.getpid()}")
    builder = SparkSession.builder.master("local[2]").appName("the tests' class archive")
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    dumped = _of_jvms(f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={whole} -Xlog:disable")
    for key, value in (quiet | dumped | {"spark.sql.shuffle.partitions": "2"}).items():
        builder = builder.config(key, value)
    with tempfile.TemporaryDirectory() as folder:
        spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
        spark.range(100).write.parquet(f"{folder}/source")
        rows = spark.readStream.schema("id long").parquet(f"{folder}/source")
        writer = rows.groupBy("id").count().writeStream.outputMode("update")
        writer = writer.foreachBatch(
            lambda batch, _: print(len(batch.collect()), "rows", file=sys.stderr)
        )
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        query.processAllAvailable()
        query.stop()
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        # The JVM ends when its input does, and writes the archive then.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_MAKE_SECONDS)
    whole.rename(archive)


if __name__ == "__main__":
    _make(Path(sys.argv[1]))
