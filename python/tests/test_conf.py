# SPDX-License-Identifier: Apache-2.0
"""The constants and the page of the configuration are what the JVM half makes of its entries."""

from pathlib import Path

from pyspark.sql import SparkSession

from spark_megaphone import conf

ROOT = Path(__file__).resolve().parents[2]
AGAIN = 'run ./sbt "spark43/runMain io.megaphone.spark.conf.Reference"'


def test_the_module_of_constants_is_what_the_entries_say(spark: SparkSession) -> None:
    made = spark._jvm.io.megaphone.spark.conf.Reference.python()  # type: ignore[union-attr]
    assert (ROOT / "python" / "spark_megaphone" / "conf.py").read_text("utf-8") == made, AGAIN


def test_the_page_is_what_the_entries_say(spark: SparkSession) -> None:
    made = spark._jvm.io.megaphone.spark.conf.Reference.markdown()  # type: ignore[union-attr]
    assert (ROOT / "docs" / "configuration.md").read_text("utf-8") == made, AGAIN


def test_each_key_has_a_default() -> None:
    keys = {value for name, value in vars(conf).items() if isinstance(value, str) and name.isupper()}
    assert keys == set(conf.DEFAULTS)
    assert all(key.startswith("spark.megaphone.") for key in keys)
