# SPDX-License-Identifier: Apache-2.0
"""A client of Spark Connect that has never heard of the plugin's package: it has SQL alone.

Run with the server's address. It starts a query, rescales it, and prints the run's id.
"""

import sys
import tempfile
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 4)
events = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
counts = events.selectExpr("value % 500 AS key").groupBy("key").count()
writer = counts.writeStream.queryName("orders").outputMode("update").format("noop")
query = writer.option("checkpointLocation", tempfile.mkdtemp()).start()
while query.lastProgress is None:
    time.sleep(0.1)  # Spark Connect has nothing to wait for

(plan,) = spark.sql("CALL megaphone.system.rescale(8)").collect()
while plan["status"] not in ("done", "failed"):
    (plan,) = spark.sql(f"CALL megaphone.system.wait('{plan['id']}')").collect()
print(query.runId, plan["status"], flush=True)
assert "spark_megaphone" not in sys.modules
input()
query.stop()
spark.stop()
