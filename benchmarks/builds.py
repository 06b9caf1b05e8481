# SPDX-License-Identifier: Apache-2.0
"""Builds of the project to measure one against another: a commit's, and the working tree's.

A build is a folder in `target/against`. It has the commit's Python package with its jar inside, the
jar of the commit's own benchmarks, and the class path and options for its JMH benchmarks. A build
of a commit is made once; the working tree's is made again by each run, and nothing that changes in
the tree later changes it.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[1]
BUILDS = ROOT / "target" / "against"
PROVIDER = re.compile(r'"megaphone": "([\w.]+)"')
# What sbt is asked for: the plugin's jar, the benchmarks' jar, and how JMH is to be started.
SBT_COMMANDS = (
    "spark43/assembly",
    "benchmarks/package",
    "export benchmarks/Jmh/fullClasspath",
    "show benchmarks/Jmh/javaOptions",
)


@dataclass(frozen=True)
class Build:
    """What has been built of one commit or of the working tree; all paths are absolute."""

    name: str
    commit: str
    package_folder: str
    provider: str
    benchmarks_jar: str
    jmh_class_path: str
    jmh_java_options: list[str]

    @staticmethod
    def read(file: Path) -> Build:
        """The build that `of_commit` or `of_tree` has described in `file`."""
        return Build(**json.loads(file.read_text()))


def full_hash(revision: str) -> str:
    """The commit that a revision names. Raises `CalledProcessError` if there is none."""
    return _git("rev-parse", "--verify", f"{revision}^{{commit}}").decode().strip()


def of_commit(commit: str) -> Path:
    """The description of a commit's build, which is made if it is not there."""
    folder = BUILDS / commit
    described = folder / "build.json"
    if not described.exists():
        shutil.rmtree(folder, ignore_errors=True)
        sources = folder / "sources"
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
            archive.extractall(sources, filter="data")
        launch = sources / ".sbt-launch"  # sbt's launcher, so that it is not fetched again
        launch.mkdir()
        for jar in (ROOT / ".sbt-launch").glob("*.jar"):
            shutil.copy(jar, launch)
        _make(commit[:7], commit, sources, folder)
    return described


def of_tree() -> Path:
    """The description of a new build of the working tree."""
    commit = full_hash("HEAD") + (" and changes" if _git("status", "--porcelain") else "")
    folder = BUILDS / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _make("tree", commit, ROOT, folder)
    return folder / "build.json"


def _make(name: str, commit: str, sources: Path, folder: Path) -> None:
    spark = Path(pyspark.__file__).parent / "jars"
    print(f"Building {name} into {folder.relative_to(ROOT)}", flush=True)
    ended = subprocess.run(
        [str(sources / "sbt"), *SBT_COMMANDS],
        env=os.environ | {"MEGAPHONE_SPARK_4_3_JARS": str(spark)},
        capture_output=True,
        text=True,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"sbt failed:\n{ended.stdout[-4000:]}{ended.stderr[-2000:]}")
    lines = ended.stdout.splitlines()
    exported = next(line for line in reversed(lines) if f".jar{os.pathsep}" in line)
    python = folder / "python"
    shutil.copytree(
        sources / "python/spark_megaphone",
        python / "spark_megaphone",
        ignore=shutil.ignore_patterns("jars", "__pycache__"),
    )
    jar = _only(sources / "jvm/spark/target/spark-4.3", "spark-megaphone_4.3_2.13-*.jar")
    jars = python / "spark_megaphone/jars"
    jars.mkdir()
    shutil.copy(jar, jars)
    _installed(python, jar.stem.removeprefix("spark-megaphone_4.3_2.13-"))
    benchmarks = _only(
        sources / "benchmarks/jvm/target/scala-2.13", "megaphone-benchmarks_*[0-9].jar"
    )
    shutil.copy(benchmarks, folder)
    harness = (sources / "benchmarks/harness.py").read_text()
    provider = PROVIDER.search(harness)
    if provider is None:
        raise RuntimeError(f"{sources / 'benchmarks/harness.py'} does not name the provider")
    build = Build(
        name=name,
        commit=commit,
        package_folder=str(python),
        provider=provider[1],
        benchmarks_jar=str(folder / benchmarks.name),
        jmh_class_path=_kept(exported.split(os.pathsep), folder / "classes"),
        jmh_java_options=[
            line.removeprefix("[info] * ") for line in lines if line.startswith("[info] * -")
        ],
    )
    (folder / "build.json").write_text(json.dumps(asdict(build), indent=1) + "\n")


def _installed(folder: Path, version: str) -> None:
    """Gives the package in `folder` its version, which it would have if it had been installed."""
    metadata = folder / f"spark_megaphone-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: spark-megaphone\nVersion: {version}\n")


def _kept(class_path: list[str], folder: Path) -> str:
    """The class path with copies of its folders, which the next compilation would change."""
    kept = [Path(entry) for entry in class_path if Path(entry).exists()]
    for number, entry in enumerate(kept):
        if entry.is_dir():
            kept[number] = folder / str(number)
            shutil.copytree(entry, kept[number])
    return os.pathsep.join(map(str, kept))


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} files in {folder} are {pattern}; remove the old ones")
    return found[0]


def _git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE
    ).stdout
