# SPDX-License-Identifier: Apache-2.0
"""A producer and a consumer that are not Spark's: what they have sent and read needs no Spark."""

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from testkit.answers import Rows

Record = tuple[int, tuple[int, ...]]
_KEYS = 5000
_BURST = 20
_PAUSE_S = 0.04
_SILENCE_MS = 30_000


class Producer:
    """Sends numbered records in a thread of its own, and counts by key what is acknowledged.

    A record's value is its number. Some keys come far more often than others, so no two keys can be
    mistaken for each other.
    """

    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        self._address = address
        self._totals: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._is_over = threading.Event()
        self._threads = ThreadPoolExecutor(1)
        self._sending = self._threads.submit(self._send)

    def stop(self) -> None:
        """Ends when the records under way are acknowledged; does nothing where it has ended.

        Raises:
            KafkaError: A record was not acknowledged.
        """
        self._is_over.set()
        self._threads.shutdown()
        self._sending.result()

    def totals(self) -> Rows:
        """Of each key, how many records it has and the sum of their values."""
        assert self._sending.done(), "it still sends"
        return [(k, n, s) for k, (n, s) in self._totals.items()]

    def _send(self) -> None:
        dice = random.Random(1)
        number = 0
        # By default a record is acknowledged by all, and one that is sent again is not kept twice.
        with KafkaProducer(bootstrap_servers=self._address, acks="all") as producer:
            while not self._is_over.wait(_PAUSE_S):
                sent = []
                for _ in range(_BURST):
                    k = int(_KEYS * dice.random() ** 2)
                    record = {"key": str(k).encode(), "value": str(number).encode()}
                    sent.append((k, number, producer.send(self.topic, **record)))
                    number += 1
                for k, value, answer in sent:
                    answer.get(timeout=60)
                    n, s = self._totals[k]
                    self._totals[k] = (n + 1, s + value)


@contextmanager
def producing(address: str, topic: str) -> Iterator[Producer]:
    """A producer that sends; it has ended afterwards."""
    producer = Producer(address, topic)
    try:
        yield producer
    finally:
        producer.stop()


def read(address: str, topic: str) -> dict[int, list[Record]]:
    """All records of a topic: of each partition, key and values in the order of the offsets."""
    with KafkaConsumer(bootstrap_servers=address) as consumer:
        numbers = consumer.partitions_for_topic(topic)
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        found: dict[int, list[Record]] = {partition.partition: [] for partition in partitions}
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records = consumer.poll(timeout_ms=_SILENCE_MS)
            assert records, f"the broker keeps the rest of {topic} back"
            for partition, some in records.items():
                found[partition.partition] += [
                    (int(record.key), tuple(map(int, record.value.split(b",")))) for record in some
                ]
        return found
