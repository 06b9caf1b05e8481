# SPDX-License-Identifier: Apache-2.0
"""A Kafka broker on this machine: a process of its own, with all its files in one folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kafka import KafkaAdminClient

from testkit.server import HOST, Server, free_ports, jars, running

PROGRAM = Path(__file__).with_name("Kafka.java")
_MEMORY = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_READY = "the broker is there"


class Broker:
    """A running broker, made by `broker`."""

    def __init__(self, server: Server, address: str) -> None:
        self.server, self.address = server, address
        server.wait(lambda: _READY in server.logged(), "Kafka answers")

    @property
    def settings(self) -> dict[str, str]:
        """What a session needs to use it."""
        class_path = f"{jars('kafka-connector')}/*"
        return {
            "spark.driver.extraClassPath": class_path,
            "spark.executor.extraClassPath": class_path,
            # A task prefers the executor that has read its partition before, which may be dead.
            "spark.locality.wait": "3s",
        }

    def create(self, topic: str, partitions: int) -> str:
        """Creates a topic; returns its name. Raises what the broker answers if it is there."""
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            how = {"num_partitions": partitions, "replication_factor": 1}
            admin.create_topics({topic: how}, wait_for_metadata=True)
        return topic


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker with no topics; it has ended afterwards."""
    ports = free_ports(2)
    clients, controllers = (f"{HOST}:{port}" for port in ports)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controllers}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controllers}",
        "log.dirs": str(folder / "logs"),
        # Whoever misspells a topic is told so.
        "auto.create.topics.enable": "false",
    }
    folder.mkdir(parents=True)
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    options = [*_MEMORY, _LOGGING, "-cp", f"{jars('kafka')}/*"]
    command = ["java", *options, str(PROGRAM), str(properties)]
    with running(command, folder / "server") as server:
        yield Broker(server, clients)
