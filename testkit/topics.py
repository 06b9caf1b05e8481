# SPDX-License-Identifier: Apache-2.0
"""A query's input and output as topics of a Kafka broker, as Spark reads and writes them."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

_BROKER = "kafka.bootstrap.servers"


def stream(spark: SparkSession, broker: str, topic: str) -> DataFrame:
    """The records of a topic from its beginning, as a stream of keys and values."""
    reader = spark.readStream.format("kafka").option(_BROKER, broker)
    records = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    numbers = (f.col(name).cast("string").cast("long") for name in ("key", "value"))
    return records.select(*(n.alias(to) for n, to in zip(numbers, ("k", "v"), strict=True)))


def writer(rows: DataFrame, broker: str, topic: str) -> DataStreamWriter:
    """Rows of a stream as records: a row's first column is the key, the others are the value."""
    key, *values = rows.columns
    record = f.col(key).cast("string").alias("key"), f.concat_ws(",", *values).alias("value")
    written = rows.select(*record).writeStream.format("kafka")
    return written.option(_BROKER, broker).option("topic", topic)
