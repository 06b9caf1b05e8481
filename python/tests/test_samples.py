# SPDX-License-Identifier: Apache-2.0
"""The samples in conf/: Spark's own parsers read them, and every setting is explained."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.exceptions.captured import IllegalArgumentException
from pyspark.sql import SparkSession

CONF = Path(__file__).resolve().parents[2] / "conf"
SETTINGS = sorted(CONF.glob("*.conf"))
SETTING = re.compile(r"^(spark\.\S+)\s+(\S.*)$", re.MULTILINE)

# The objects that register the keys which the samples have.
REGISTRIES = [
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.internal.config.History$",
    "org.apache.spark.internal.config.Network$",
    "org.apache.spark.internal.config.UI$",
    "org.apache.spark.deploy.k8s.Config$",
    "org.apache.spark.deploy.yarn.config.package$",
    "org.apache.spark.sql.connect.config.Connect$",
    "org.apache.spark.sql.internal.SQLConf$",
]


def wrong_settings(spark: SparkSession, text: str, file: Path) -> list[str]:
    """What is wrong with a file of settings: what Spark reads of it, and what it makes of that."""
    jvm: Any = spark._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    for name in REGISTRIES:
        jvm.Class.forName(name, True, loader)
    file.write_text(text, "utf-8")
    read = jvm.org.apache.spark.util.Utils.getPropertiesFromFile(str(file))
    settings = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(read))
    problems = []
    if settings != dict(SETTING.findall(text)):
        problems.append("Spark reads something else than what stands there")
    for key, value in settings.items():
        # Neither has an entry of its own: the first is an option of spark-submit, the others are
        # the lines of a file of metrics.
        if key == "spark.master" or key.startswith("spark.metrics.conf."):
            continue
        entry = jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(key)
        if entry is None:
            problems.append(f"{key}: Spark has no such key")
            continue
        try:
            entry.valueConverter().apply(value)
        except IllegalArgumentException:
            problems.append(f"{key}: {value} is no value for it")
    lines = text.splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if SETTING.match(line) and not before.startswith("# "):
            problems.append(f"{line.split()[0]}: no comment explains it")
    return problems


def test_there_is_a_file_of_settings_for_each_place() -> None:
    places = ["kubernetes", "local", "standalone", "yarn"]
    assert [file.name for file in SETTINGS] == [f"spark-defaults-{place}.conf" for place in places]


@pytest.mark.parametrize("file", SETTINGS, ids=lambda file: file.stem)
def test_spark_knows_every_setting_of_a_file(
    spark: SparkSession, file: Path, tmp_path: Path
) -> None:
    assert wrong_settings(spark, file.read_text("utf-8"), tmp_path / "copy.conf") == []


def test_a_wrong_setting_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    text = (
        "# All.\nspark.master local[2]\n# So many.\nspark.executor.core 2\n# Long.\n"
        "spark.locality.wait 3 sheep\nspark.eventLog.enabled true\n# Twice.\n"
        "spark.executor.cores 2\n# Again.\nspark.executor.memory 4g # large\n"
    )
    assert sorted(wrong_settings(spark, text, tmp_path / "wrong.conf")) == [
        "spark.eventLog.enabled: no comment explains it",
        "spark.executor.core: Spark has no such key",
        "spark.executor.memory: 4g # large is no value for it",
        "spark.locality.wait: 3 sheep is no value for it",
    ]


def test_log4j_reads_the_levels(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j.core
    uri = jvm.java.net.URI((CONF / "log4j2.properties").as_uri())
    factory = log4j.config.ConfigurationFactory.getInstance()
    read = factory.getConfiguration(log4j.LoggerContext("sample"), "sample", uri)
    read.initialize()
    levels = {name: str(logger.getLevel()) for name, logger in read.getLoggers().items()}
    assert levels == {"": "WARN", "io.megaphone": "INFO"}
    assert list(read.getAppenders()) == ["console"]
