# SPDX-License-Identifier: Apache-2.0
"""Spark's services of conf/compose.yaml, run by their own commands, but without containers, with
folders and ports of this machine: a query runs in bins, and the pages that Prometheus reads answer.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from testkit import server
from testkit.server import HOST, Server
from testkit.waiting import until

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
SPARK = Path(pyspark.__file__).parent
CLIENT_SECONDS = 180
# Where the services listen, by their names and ports in the containers; here, at free ports.
PORTS = ["master", "master:8080", "worker-1:8081", "worker-2:8081", "connect:4040"]
PORTS += ["connect:15002", "history:18080"]

CLIENT = """
import sys
from pyspark.sql.connect.session import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).create()
words = spark.readStream.text(sys.argv[2])
query = words.groupBy("value").count().writeStream.format("noop").outputMode("update").start()
query.processAllAvailable()
workers = spark.sql("SELECT executor, bins FROM megaphone.system.workers").collect()
print(len({worker.executor for worker in workers}), sum(worker.bins for worker in workers))
query.stop()
"""


@dataclass
class Stack:
    """The running services, and where each listens."""

    folder: Path
    ports: dict[str, int]

    def read(self, target: str, path: str) -> str:
        """What a service answers, by the name and port that it has in its container."""
        url = f"http://{HOST}:{self.ports[target]}{path}"
        with urllib.request.urlopen(url, timeout=10) as page:
            return str(page.read().decode())


@contextlib.contextmanager
def running_stack(folder: Path) -> Iterator[Stack]:
    ports = dict(zip(PORTS, server.free_ports(len(PORTS)), strict=True))
    stack = Stack(folder, ports)
    for name in ("data/events", "data/checkpoints"):
        (folder / name).mkdir(parents=True)
    here = {
        "/opt/spark/bin/": f"{SPARK}/bin/",
        "/opt/megaphone-conf": f"{folder}/conf",
        "/opt/megaphone/": f"{ROOT}/python/spark_megaphone/jars/",
        "/data/": f"{folder}/data/",
        "spark://master:7077": f"spark://{HOST}:{ports['master']}",
    }

    def moved(text: str) -> str:
        for one, other in here.items():
            text = text.replace(one, other)
        # The jar for the Spark that runs, and the default of a variable.
        minor = ".".join(pyspark.__version__.split(".")[:2])
        text = re.sub(r"spark-megaphone_\d\.\d_", f"spark-megaphone_{minor}_", text)
        return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)

    shutil.copytree(CONF, folder / "conf")
    settings = folder / "conf" / "spark-defaults-compose.conf"
    more = {
        "spark.driver.host": HOST,
        "spark.ui.port": ports["connect:4040"],
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": ports["connect:15002"],
        "spark.history.ui.port": ports["history:18080"],
    }
    lines = "".join(f"{key} {value}\n" for key, value in more.items())
    settings.write_text(moved(settings.read_text("utf-8")) + lines, "utf-8")
    services: dict[str, Any] = yaml.safe_load((CONF / "compose.yaml").read_text("utf-8"))[
        "services"
    ]

    def options(name: str) -> list[str]:
        """What a service needs beside its command to be on this machine with others."""
        given = {
            "master": ["--port", str(ports["master"])],
            "worker-1": ["--host", HOST, "--work-dir", str(folder / "work-1")],
            "worker-2": ["--host", HOST, "--work-dir", str(folder / "work-2")],
        }.get(name, [])
        page = next((str(ports[port]) for port in PORTS if port.startswith(f"{name}:80")), None)
        return [*given, "--webui-port", page] if page else given

    with contextlib.ExitStack() as started:

        def start(name: str) -> Server:
            program, main, *others = (moved(part) for part in services[name]["command"])
            others = [HOST if other == "master" else other for other in others]
            environment = {
                **{k: v for k, v in os.environ.items() if not k.startswith("SPARK_")},
                **{key: moved(value) for key, value in services[name]["environment"].items()},
                "SPARK_HOME": str(SPARK),
                "SPARK_LOCAL_IP": HOST,
                "SPARK_DAEMON_MEMORY": "512m",
                "PYSPARK_PYTHON": sys.executable,
            }
            command = [program, main, *options(name), *others]
            return started.enter_context(server.running(command, folder / name, environment))

        def answers(target: str) -> bool:
            with contextlib.suppress(OSError):
                return bool(stack.read(target, "/"))
            return False

        start("master").wait(lambda: answers("master:8080"), "the master")
        workers = [start("worker-1"), start("worker-2")]
        history = start("history")
        for number, worker in enumerate(workers, 1):
            worker.wait(partial(answers, f"worker-{number}:8081"), f"worker {number}")
        start("connect").wait(lambda: answers("connect:4040"), "the Connect server")
        history.wait(lambda: answers("history:18080"), "the history server")
        yield stack


@pytest.mark.slow
def test_the_services_of_the_compose_file_run_a_query_and_answer_prometheus(
    tmp_path: Path,
) -> None:
    pytest.importorskip("grpc")
    words = tmp_path / "words"
    words.mkdir()
    (words / "a.txt").write_text("a\nb\na\n", "utf-8")
    with running_stack(tmp_path / "stack") as stack:
        remote = f"sc://{HOST}:{stack.ports['connect:15002']}"
        ran = subprocess.run(
            [sys.executable, "-c", CLIENT, remote, str(words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=CLIENT_SECONDS,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == ["2", "1024"]
        jobs = yaml.safe_load((CONF / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
        for job in jobs:
            for target in job["static_configs"][0]["targets"]:
                assert "_" in stack.read(target, job["metrics_path"]), job["job_name"]
        applications = "/api/v1/applications"
        until(
            lambda: "Spark Connect server" in stack.read("history:18080", applications),
            "the history server lists the application",
            60,
        )
