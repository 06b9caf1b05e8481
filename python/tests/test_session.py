# SPDX-License-Identifier: Apache-2.0
"""What `configure` does to a builder, and what it says where no builder can help.

Builders and handles that need a process of their own run in one, with a script that prints what it
sees.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_megaphone import __version__, _session, conf, configure, errors
from spark_megaphone._jvm import PLUGIN

MINOR = ".".join(pyspark.__version__.split(".")[:2])
JAR = str(_session._JARS_FOLDER / f"spark-megaphone_{MINOR}_2.13-{__version__}.jar")
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if no Spark ran in this process yet; gives the folder of Spark's configuration."""
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark.SparkContext, "_jvm", None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in (
        "PYSPARK_SUBMIT_ARGS",
        "PYSPARK_GATEWAY_PORT",
        "SPARK_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def options(builder: Any) -> dict[str, Any]:
    return dict(builder._options)


@pytest.mark.usefixtures("fresh")
def test_a_builder_gets_the_jar_and_the_plugin_and_nothing_else() -> None:
    builder = SparkSession.builder
    assert configure(builder) is builder
    assert options(builder) == {"spark.jars": JAR, "spark.plugins": PLUGIN}
    assert Path(JAR).is_file()


@pytest.mark.usefixtures("fresh")
def test_a_builder_gets_the_settings_that_are_given() -> None:
    made = options(
        configure(
            SparkSession.builder, bins=64, checkpoint_format=2, mode="Direct", strategy="batched(8)"
        )
    )
    assert made == {
        "spark.jars": JAR,
        "spark.plugins": PLUGIN,
        conf.BINS: "64",
        FORMAT: "2",
        conf.TRANSFER_MODE: "direct",
        conf.STRATEGY: "batched(8)",
    }


@pytest.mark.usefixtures("fresh")
def test_what_the_builder_has_stays_and_twice_is_once() -> None:
    builder = SparkSession.builder.config("spark.jars", "/opt/a.jar, /opt/b.jar").config(
        "spark.plugins", "org.A"
    )
    for _ in range(2):
        configure(builder)
        assert options(builder) == {
            "spark.jars": f"/opt/a.jar,/opt/b.jar,{JAR}",
            "spark.plugins": f"org.A,{PLUGIN}",
        }


def test_what_the_defaults_file_has_stays(fresh: Path) -> None:
    (fresh / "spark-defaults.conf").write_text(
        "# mine\nspark.plugins   org.A\nspark.jars=/opt/a.jar\n\nspark.x  1\n"
    )
    made = options(configure(SparkSession.builder))
    assert made == {"spark.jars": f"/opt/a.jar,{JAR}", "spark.plugins": f"org.A,{PLUGIN}"}


@pytest.mark.usefixtures("fresh")
def test_another_copy_of_the_jar_is_enough() -> None:
    builder = configure(
        SparkSession.builder.config("spark.jars", f"hdfs://x/spark-megaphone_{MINOR}_2.13-9.jar")
    )
    assert options(builder)["spark.jars"] == f"hdfs://x/spark-megaphone_{MINOR}_2.13-9.jar"


WRONG: list[tuple[dict[str, Any], type[errors.MegaphoneError], str]] = [
    (
        {"bins": 100},
        errors.InvalidBins,
        "The number of bins is 100, but it must be a power of two from 1 to 65536; use 64, for "
        "example.",
    ),
    (
        {"bins": 0},
        errors.InvalidBins,
        "The number of bins is 0, but it must be a power of two from 1 to 65536; use 1, for "
        "example.",
    ),
    (
        {"bins": True},
        errors.WrongType,
        "bins is True, of type bool, but a power of two from 1 to 65536 is needed.",
    ),
    (
        {"bins": "64"},
        errors.WrongType,
        "bins is '64', of type str, but a power of two from 1 to 65536 is needed.",
    ),
    (
        {"checkpoint_format": 3},
        errors.InvalidCheckpointFormat,
        "The checkpoint format version is 3, but Spark has only 1 and 2; choose 2.",
    ),
    (
        {"mode": "later"},
        errors.UnknownMode,
        "There is no transfer mode 'later', only direct, prepared, replicated, on-demand; choose "
        "one of these.",
    ),
    (
        {"strategy": "batched(0)"},
        errors.InvalidBatchSize,
        "The strategy batched cannot move 0 bins a step, but a whole number from 1 to 65536; give "
        "one in that range, or leave it out.",
    ),
    (
        {"strategy": "batched(<bins per step>)"},
        errors.InvalidBatchSize,
        "The strategy batched cannot move <bins per step> bins a step, but a whole number from 1 "
        "to 65536; give one in that range, or leave it out.",
    ),
    ({"strategy": 8}, errors.WrongType, "strategy is 8, of type int, but a str is needed."),
]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("arguments", "error", "sentence"), WRONG, ids=[str(case[0]) for case in WRONG]
)
def test_a_setting_that_cannot_be_leaves_the_builder_alone(
    arguments: dict[str, Any], error: type[errors.MegaphoneError], sentence: str
) -> None:
    builder = SparkSession.builder
    with pytest.raises(errors.MegaphoneError) as caught:
        configure(builder, **arguments)
    assert (type(caught.value), str(caught.value)) == (error, sentence)
    assert options(builder) == {}


@given(bins=st.integers())
def test_bins_are_powers_of_two(bins: int) -> None:
    powers = {1 << bits for bits in range(17)}
    try:
        made = _session._settings(bins, None, None, None)
    except errors.InvalidBins:
        assert bins not in powers
    else:
        assert bins in powers
        assert made == {conf.BINS: str(bins)}


@pytest.mark.usefixtures("fresh")
def test_a_spark_without_a_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "9.7.1")
    with pytest.raises(errors.NoJarForSpark) as caught:
        configure(SparkSession.builder)
    assert str(caught.value) == (
        f"spark-megaphone {__version__} has jars for Spark 4.2 and 4.3, but PySpark 9.7.1 runs; "
        f"install one of these, or a spark-megaphone made for yours."
    )


@pytest.mark.usefixtures("fresh")
def test_a_package_without_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_session, "_JARS_FOLDER", tmp_path)
    with pytest.raises(errors.JarMissing) as caught:
        configure(SparkSession.builder)
    assert str(caught.value) == (
        f"There are no jars in {tmp_path}; install the package's wheel, or run `make jars` in its "
        "sources."
    )


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (
            "--jars /opt/a.jar pyspark-shell",
            errors.JarMissing,
            f"PYSPARK_SUBMIT_ARGS names jars, and Spark takes only those; add {JAR} to them.",
        ),
        (
            "--conf spark.jars=/opt/a.jar pyspark-shell",
            errors.JarMissing,
            f"PYSPARK_SUBMIT_ARGS names jars, and Spark takes only those; add {JAR} to them.",
        ),
        (
            "--conf spark.plugins=org.A pyspark-shell",
            errors.PluginMissing,
            f"PYSPARK_SUBMIT_ARGS sets spark.plugins, and Spark takes only that; add {PLUGIN} to "
            "it.",
        ),
        (f"--jars /opt/a.jar,{JAR} --conf spark.plugins=org.A,{PLUGIN} pyspark-shell", None, ""),
        ("--master local[2] pyspark-shell", None, ""),
    ],
)
def test_submit_arguments_that_win_over_the_builder(
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    error: type[errors.MegaphoneError] | None,
    sentence: str,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    if error is None:
        configure(SparkSession.builder)
    else:
        with pytest.raises(error) as caught:
            configure(SparkSession.builder)
        assert str(caught.value) == sentence


CONNECT = (
    "The builder makes a Spark Connect session, which takes no jar and no plugin; start the "
    "server with them (start-connect-server.sh --jars <the jar> --conf "
    "spark.plugins=io.megaphone.MegaphonePlugin), or build a classic session. remote('local') "
    "takes no plugin."
)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("how", ["remote", "api mode", "environment", "connect's own"])
def test_a_builder_of_spark_connect(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    builder: Any = SparkSession.builder
    if how == "remote":
        builder = builder.remote("sc://localhost")
    elif how == "api mode":
        builder = builder.config("spark.api.mode", "connect")
    elif how == "environment":
        monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    else:
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        builder = RemoteSession.Builder()
    before = options(builder)
    with pytest.raises(errors.ConnectNotSupported) as caught:
        configure(builder)
    assert str(caught.value) == CONNECT
    assert options(builder) == before


def test_a_session_that_has_the_plugin_takes_the_settings(spark: SparkSession) -> None:
    builder = configure(SparkSession.builder, strategy="fluid")
    assert options(builder) == {conf.STRATEGY: "fluid"}
    before = spark.conf.get(conf.STRATEGY, None)
    try:
        assert builder.getOrCreate() is spark
        assert spark.conf.get(conf.STRATEGY) == "fluid"
    finally:
        spark.conf.unset(conf.STRATEGY)
        assert before is None


PREAMBLE = """
import sys
from pyspark.sql import SparkSession
from spark_megaphone import Megaphone, configure, errors

def tried(body):
    try:
        print("fine:", body())
    except errors.MegaphoneError as error:
        print(f"{type(error).__name__}: {error}")

def query_of(spark):
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    return stream.writeStream.format("noop").start()

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
"""


def printed(command: list[str], script: str, tmp_path: Path) -> list[str]:
    """What a script prints that starts its own JVM, line by line."""
    file = tmp_path / "script.py"
    file.write_text(PREAMBLE + script)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_CONNECT"))}
    environment = kept | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [*command, str(file)], capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return [
        line for line in ran.stdout.splitlines() if line.startswith(("fine:", *errors.__dict__))
    ]


STARTED_WITHOUT_JAR = (
    "JarMissing: The JVM of this process runs already, without Megaphone's jar, and cannot "
    "take it any more; give "
    f"spark-submit --jars {JAR}, or restart Python and call configure before the first session is "
    "made."
)


def test_a_session_started_without_the_jar(tmp_path: Path) -> None:
    script = """
spark = builder.getOrCreate()
tried(lambda: Megaphone(query_of(spark)))
tried(lambda: configure(SparkSession.builder))
spark.stop()
tried(lambda: configure(SparkSession.builder))
"""
    assert printed([sys.executable], script, tmp_path) == [
        "JarMissing: The JVM of this session does not know Megaphone's classes, because its jar is "
        "missing; start the session with spark_megaphone.configure(SparkSession.builder), or give "
        "the jar to spark-submit with --jars.",
        "SessionAlreadyRunning: A Spark session without the plugin runs in this process already, "
        "and the builder would "
        "return it as it is; stop it, restart Python, and call configure before the first session "
        "is made.",
        STARTED_WITHOUT_JAR,
    ]


@pytest.mark.slow
def test_a_session_with_the_jar_but_without_the_plugin(tmp_path: Path) -> None:
    script = f"""
spark = builder.config("spark.jars", {JAR!r}).getOrCreate()
tried(lambda: Megaphone(query_of(spark)))
spark.stop()
tried(lambda: configure(builder).getOrCreate().conf.get("spark.plugins"))
"""
    assert printed([sys.executable], script, tmp_path) == [
        "PluginMissing: The session was started without the plugin; start it with "
        "spark_megaphone.configure, or with "
        f"spark.plugins={PLUGIN}.",
        f"fine: {PLUGIN}",
    ]


@pytest.mark.slow
def test_a_checkpoint_of_ours_without_the_jar_or_the_plugin_is_refused_and_runs_on_with_them(
    tmp_path: Path,
) -> None:
    """Without the jar nothing of ours is there to say anything: Spark names the class that it
    misses.
    """
    common = f"""
def run(spark):
    spark.range(10).write.mode("append").parquet({str(tmp_path / "source")!r})
    rows = spark.readStream.schema("id long").parquet({str(tmp_path / "source")!r})
    writer = rows.dropDuplicates().writeStream.format("noop").trigger(availableNow=True)
    try:
        writer = writer.option("checkpointLocation", {str(tmp_path / "checkpoint")!r})
        writer.start().awaitTermination()
        return "it ran"
    except Exception as error:
        said = str(error)
        plugin = "needs its plugin; start the session with spark.plugins="
        known = [plugin, "io.megaphone.BinnedStateStoreProvider"]
        return next((part for part in known if part in said), said)
"""
    with_ours = common + "tried(lambda: run(configure(builder).getOrCreate()))"
    assert printed([sys.executable], with_ours, tmp_path) == ["fine: it ran"]
    without_jar = common + "tried(lambda: run(builder.getOrCreate()))"
    assert printed([sys.executable], without_jar, tmp_path) == [
        "fine: io.megaphone.BinnedStateStoreProvider"
    ]
    without_plugin = f"""
spark = builder.config("spark.jars", {JAR!r}).getOrCreate()
tried(lambda: run(spark))
spark.stop()
tried(lambda: run(configure(builder).getOrCreate()))
"""
    assert printed([sys.executable], common + without_plugin, tmp_path) == [
        "fine: needs its plugin; start the session with spark.plugins=",
        "fine: it ran",
    ]


@pytest.mark.slow
def test_the_jar_of_another_spark_is_refused_before_a_session_exists(tmp_path: Path) -> None:
    (other,) = {jar.name.split("_")[1] for jar in _session._JARS_FOLDER.glob("*.jar")} - {MINOR}
    jar = JAR.replace(f"spark-megaphone_{MINOR}_", f"spark-megaphone_{other}_")
    script = f"""
def started():
    try:
        return configure(builder.config("spark.jars", {jar!r})).getOrCreate()
    except Exception as error:
        line = next(line for line in str(error).splitlines() if "OtherSparkException" in line)
        return line.split("OtherSparkException: ")[1]

tried(started)
"""
    assert printed([sys.executable], script, tmp_path) == [
        f"fine: This jar of spark-megaphone was built for Spark {other}, but Spark "
        f"{pyspark.__version__} runs; put the jar whose name has the version that runs into "
        "spark.jars, or start the session with spark_megaphone.configure, which chooses it."
    ]


@pytest.mark.slow
def test_spark_submit_needs_the_jar_on_its_command_line(tmp_path: Path) -> None:
    submit = str(Path(sys.executable).parent / "spark-submit")
    script = "tried(lambda: sorted(configure(builder)._options)[-1])"
    assert printed([submit], script, tmp_path) == [STARTED_WITHOUT_JAR]
    assert printed([submit, "--jars", JAR], script, tmp_path) == ["fine: spark.ui.enabled"]
