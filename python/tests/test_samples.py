# SPDX-License-Identifier: Apache-2.0
"""The samples in conf/: Spark's own parsers read the files for Spark, a schema checks the compose
file, and what the files say of each other is so. Every setting and variable is explained.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors.exceptions.captured import IllegalArgumentException
from pyspark.sql import SparkSession

CONF = Path(__file__).resolve().parents[2] / "conf"
SETTINGS = sorted(CONF.glob("*.conf"))
SETTING = re.compile(r"^(spark\.\S+)\s+(\S.*)$", re.MULTILINE)
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")

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
    places = ["compose", "kubernetes", "local", "standalone", "yarn"]
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


COMPOSE = CONF / "compose.yaml"


def wrong_compose(file: Path) -> str:
    """What the schema of compose files finds."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run(
        [*command, str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


def test_the_compose_file_fits_the_schema() -> None:
    assert not wrong_compose(COMPOSE)


def test_a_compose_file_that_does_not_fit_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text("utf-8").replace("    ports:\n", "    port:\n", 1), "utf-8")
    assert "'port' was unexpected" in wrong_compose(wrong)


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file, with the defaults of its variables."""
    text = VARIABLE.sub(lambda found: found[2] or "", COMPOSE.read_text("utf-8"))
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return found


def test_each_variable_of_the_compose_file_has_a_default_and_an_explanation() -> None:
    text = COMPOSE.read_text("utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    variables = VARIABLE.findall(code)
    assert len(variables) == code.count("$")
    assert [name for name, default in variables if not default] == []
    explained = re.findall(r"^# ([A-Z][A-Z_]+)  +\S", text, re.MULTILINE)
    assert sorted(explained) == sorted({name for name, _ in variables})


def test_the_services_of_the_compose_file_are_pinned_and_closed() -> None:
    spark = {"folders", "master", "worker-1", "worker-2", "connect", "history"}
    assert set(services()) == spark | {"prometheus", "grafana"}
    for name, service in services().items():
        assert re.search(r":v?\d+\.\d+\.\d+", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert set(service.get("depends_on", [])) <= set(services()), name


def test_what_the_compose_file_mounts_and_names_exists() -> None:
    text = COMPOSE.read_text("utf-8")
    declared = set(yaml.safe_load(text)["volumes"])
    mounts = {
        (name, *mount.split(":")[:2])
        for name, service in services().items()
        for mount in service.get("volumes", [])
    }
    for _, source, _ in mounts:
        assert source in declared or (source.startswith(".") and (CONF / source).exists()), source
    named = set(re.findall(r"/opt/megaphone-conf/(\S+)", text))
    assert named == {"spark-defaults-compose.conf"}
    assert ("connect", ".", "/opt/megaphone-conf") in mounts


def test_prometheus_asks_services_of_the_compose_file() -> None:
    config = yaml.safe_load((CONF / "prometheus.yml").read_text("utf-8"))
    assert set(config) == {"global", "scrape_configs"}
    asked = {}
    for job in config["scrape_configs"]:
        assert set(job) == {"job_name", "metrics_path", "static_configs"}
        asked[job["metrics_path"], job["job_name"]] = job["static_configs"][0]["targets"]
    assert asked == {
        ("/metrics/megaphone/", "megaphone"): ["connect:4040"],
        ("/metrics/prometheus/", "driver"): ["connect:4040"],
        ("/metrics/executors/prometheus/", "executors"): ["connect:4040"],
        ("/metrics/master/prometheus/", "master"): ["master:8080"],
        ("/metrics/prometheus/", "workers"): ["worker-1:8081", "worker-2:8081"],
    }
    assert {target.split(":")[0] for some in asked.values() for target in some} <= set(services())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing() -> None:
    command = ["promtool", "check", "config", str(CONF / "prometheus.yml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_grafana_finds_prometheus_and_the_boards() -> None:
    provisioned = CONF / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioned / "datasources" / "prometheus.yaml").read_text())[
        "datasources"
    ]
    assert (source["type"], source["uid"]) == ("prometheus", "prometheus")
    assert source["url"] == "http://prometheus:9090"
    assert any(port.endswith(":9090") for port in services()["prometheus"]["ports"])
    scrape = yaml.safe_load((CONF / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape
    (boards,) = yaml.safe_load((provisioned / "dashboards" / "boards.yaml").read_text())[
        "providers"
    ]
    targets = [mount.split(":")[1] for mount in services()["grafana"]["volumes"]]
    assert targets == ["/etc/grafana/provisioning", boards["options"]["path"]]
